package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour
	renewBefore   = 30 * 24 * time.Hour

	// backdate tolerates a clock that is set back between two runs.
	backdate = time.Hour
)

// Authority signs the certificates of one cluster. They and their keys are files in its folder.
type Authority struct {
	dir  string
	now  time.Time
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Pair are the files of one certificate and its key.
type Pair struct{ Cert, Key string }

// Open takes the authority in dir, or makes one where there is none that can sign for as long as a
// certificate lives.
func Open(dir string, now time.Time) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of certificates: %w", err)
	}
	a := &Authority{dir: dir, now: now}
	if cert, key, err := load(a.pair("ca")); err == nil && cert.IsCA && lasts(cert, now, leafLife+renewBefore) {
		a.cert, a.key = cert, key
		return a, nil
	}
	if err := a.create(); err != nil {
		return nil, fmt.Errorf("making the certificate authority: %w", err)
	}
	return a, nil
}

// Cert is the file of the authority's own certificate.
func (a *Authority) Cert() string { return a.pair("ca").Cert }

func (a *Authority) create() error {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "purser-cluster-ca"},
		NotBefore:             a.now.Add(-backdate),
		NotAfter:              a.now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	cert, key, err := sign(template, nil, nil)
	if err != nil {
		return err
	}
	a.cert, a.key = cert, key
	return save(a.pair("ca"), cert, key)
}

func (a *Authority) pair(name string) Pair {
	return Pair{Cert: filepath.Join(a.dir, name+".crt"), Key: filepath.Join(a.dir, name+".key")}
}

// lasts reports whether a certificate is valid now and for the given time to come.
func lasts(cert *x509.Certificate, now time.Time, more time.Duration) bool {
	return !now.Before(cert.NotBefore) && now.Add(more).Before(cert.NotAfter)
}
