package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"slices"
)

// Spec says what a certificate is for. A server has hosts; a client has an identity; etcd is both.
type Spec struct {
	Name  string   // of its files
	User  string   // common name: to Kubernetes, the user
	Group string   // organization: to Kubernetes, the group; may be empty
	Hosts []string // DNS names and IP addresses; without any, it cannot serve
}

// Issue returns the certificate that the spec asks for: the one on disk as long as it fits.
func (a *Authority) Issue(spec Spec) (Pair, error) {
	pair, template := a.pair(spec.Name), a.template(spec)
	if cert, _, err := load(pair); err == nil && a.fits(cert, template) {
		return pair, nil
	}
	cert, key, err := sign(template, a.cert, a.key)
	if err == nil {
		err = save(pair, cert, key)
	}
	if err != nil {
		return Pair{}, fmt.Errorf("issuing certificate %s: %w", spec.Name, err)
	}
	return pair, nil
}

func (a *Authority) template(spec Spec) *x509.Certificate {
	t := &x509.Certificate{
		Subject:     pkix.Name{CommonName: spec.User},
		NotBefore:   a.now.Add(-backdate),
		NotAfter:    a.now.Add(leafLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if spec.Group != "" {
		t.Subject.Organization = []string{spec.Group}
	}
	for _, host := range spec.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, host)
		}
	}
	if len(spec.Hosts) > 0 {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	return t
}

// fits reports whether a certificate on disk is what would be issued now, by this authority, and
// lasts.
func (a *Authority) fits(cert, want *x509.Certificate) bool {
	return lasts(cert, a.now, renewBefore) &&
		cert.CheckSignatureFrom(a.cert) == nil &&
		cert.Subject.String() == want.Subject.String() &&
		slices.Equal(cert.DNSNames, want.DNSNames) &&
		slices.EqualFunc(cert.IPAddresses, want.IPAddresses, net.IP.Equal) &&
		slices.Equal(cert.ExtKeyUsage, want.ExtKeyUsage)
}
