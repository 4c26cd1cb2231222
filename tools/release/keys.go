package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

// passwordVariable has the password of a private key, as for cosign.
const passwordVariable = "COSIGN_PASSWORD"

// signer signs with a private key.
type signer struct {
	private crypto.PrivateKey
	both    signature.SignerVerifier
	public  []byte // the public key, as PEM
}

// generateKey writes a key pair as `cosign generate-key-pair` does: ECDSA on P256, the private key
// encrypted with the password.
func generateKey(prefix, password string, out io.Writer) error {
	give := cryptoutils.StaticPasswordFunc([]byte(password))
	private, public, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(), give)
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name    string
		content []byte
		mode    os.FileMode
	}{{prefix + ".key", private, 0o600}, {prefix + ".pub", public, 0o644}} {
		if err := writeNew(file.name, file.content, file.mode); err != nil {
			return err
		}
		fmt.Fprintln(out, file.name)
	}
	return nil
}

// writeNew writes a file that must not exist: a key is never replaced.
func writeNew(name string, content []byte, mode os.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// readKey reads a private key. Errors do not have its content.
func readKey(path, password string) (*signer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	private, err := cryptoutils.UnmarshalPEMToPrivateKey(text, cryptoutils.StaticPasswordFunc([]byte(password)))
	if err != nil {
		return nil, fmt.Errorf("no private key in PEM, or %s has another password: %w", passwordVariable, err)
	}
	both, err := signature.LoadSignerVerifier(private, crypto.SHA256)
	if err != nil {
		return nil, err
	}
	public, err := both.PublicKey()
	if err != nil {
		return nil, err
	}
	pem, err := cryptoutils.MarshalPublicKeyToPEM(public)
	return &signer{private, both, pem}, err
}

// readPublicKey reads the key that signatures are verified with.
func readPublicKey(path string) (signature.Verifier, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := cryptoutils.UnmarshalPEMToPublicKey(text)
	if err != nil {
		return nil, fmt.Errorf("no public key in PEM: %w", err)
	}
	return signature.LoadVerifier(key, crypto.SHA256)
}

// sign returns the signature of a message. With an ECDSA key it has no random part (RFC 6979), so that
// the same release has the same bytes. A signature that does not verify is not returned.
func (s *signer) sign(message []byte) ([]byte, error) {
	var sig []byte
	var err error
	if key, ok := s.private.(*ecdsa.PrivateKey); ok {
		digest := sha256.Sum256(message)
		sig, err = key.Sign(nil, digest[:], crypto.SHA256)
	} else {
		sig, err = s.both.SignMessage(bytes.NewReader(message))
	}
	if err != nil {
		return nil, err
	}
	return sig, s.both.VerifySignature(bytes.NewReader(sig), bytes.NewReader(message))
}

// fileBundle is a signature of a file in Sigstore's format, as far as a key needs it.
type fileBundle struct {
	MediaType string `json:"mediaType"`
	Material  struct {
		Key struct {
			Hint string `json:"hint"`
		} `json:"publicKey"`
	} `json:"verificationMaterial"`
	Message struct {
		Digest struct {
			Algorithm string `json:"algorithm"`
			Digest    []byte `json:"digest"`
		} `json:"messageDigest"`
		Signature []byte `json:"signature"`
	} `json:"messageSignature"`
}

const bundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// signFile writes the signature of a file beside it: FILE.sig as `cosign sign-blob` prints it, and
// FILE.sigstore.json as its --bundle.
func (s *signer) signFile(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	sig, err := s.sign(content)
	if err != nil {
		return err
	}
	key, err := cryptoutils.UnmarshalPEMToPublicKey(s.public)
	if err != nil {
		return err
	}
	der, err := cryptoutils.MarshalPublicKeyToDER(key)
	if err != nil {
		return err
	}
	digest, keyDigest := sha256.Sum256(content), sha256.Sum256(der)
	b := fileBundle{MediaType: bundleType}
	b.Material.Key.Hint = base64.StdEncoding.EncodeToString(keyDigest[:])
	b.Message.Digest.Algorithm, b.Message.Digest.Digest, b.Message.Signature = "SHA2_256", digest[:], sig
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return errors.Join(
		writeFile(path+".sig", []byte(base64.StdEncoding.EncodeToString(sig)+"\n")),
		writeFile(path+".sigstore.json", append(text, '\n')),
	)
}

// writeFile writes a file of the release, which all users may read.
func writeFile(path string, content []byte) error {
	return os.WriteFile(path, content, 0o644) //nolint:gosec // readable by all users
}
