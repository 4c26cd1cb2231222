package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/purser-csi/purser/internal/cluster/process"
)

// SigningKey returns the file of a private key that signs tokens, and makes it where there is none
// that can be read.
func (a *Authority) SigningKey(name string) (string, error) {
	path := a.pair(name).Key
	if _, err := loadKey(path); err == nil {
		return path, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err == nil {
		err = saveKey(path, key)
	}
	if err != nil {
		return "", fmt.Errorf("making signing key %s: %w", name, err)
	}
	return path, nil
}

// sign makes a key and its certificate; without a parent the certificate signs itself.
func sign(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

// load reads a certificate and the key that belongs to it.
func load(pair Pair) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	both, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, nil, err
	}
	key, ok := both.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, fmt.Errorf("%s: %T instead of an ECDSA key", pair.Key, both.PrivateKey)
	}
	return both.Leaf, key, nil
}

// save writes the key first: a certificate on disk without its key would be found damaged, and
// issued again.
func save(pair Pair, cert *x509.Certificate, key *ecdsa.PrivateKey) error {
	if err := saveKey(pair.Key, key); err != nil {
		return err
	}
	return write(pair.Cert, "CERTIFICATE", cert.Raw)
}

func loadKey(path string) (*ecdsa.PrivateKey, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("not a PEM file")
	}
	return x509.ParseECPrivateKey(block.Bytes)
}

func saveKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return write(path, "EC PRIVATE KEY", der)
}

func write(path, kind string, der []byte) error {
	return process.WritePrivateFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
