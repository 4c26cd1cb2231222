package process

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"

	"github.com/purser-csi/purser/internal/roles/cli"
)

// SecureSettings are the flags of HTTPS with access reviews.
type SecureSettings struct {
	Secure   bool   // --metrics-secure
	CertPath string // --metrics-cert-path
}

// AddFlags adds --metrics-secure and --metrics-cert-path.
func (s *SecureSettings) AddFlags(f *pflag.FlagSet) {
	f.BoolVar(&s.Secure, "metrics-secure", false,
		"serve HTTPS, and metrics and profiles only to callers whose bearer token the API server accepts and who may "+
			"get the path (TokenReview and SubjectAccessReview: deploy/optional/metrics-secure.yaml); health needs no "+
			"token. Without it HTTP is plain, as upstream's")
	f.StringVar(&s.CertPath, "metrics-cert-path", "",
		"`folder` with tls.crt and tls.key for --metrics-secure, which are read again when they change; empty for a "+
			"self-signed certificate")
	cli.Marked(f, cli.MarkNew, "metrics-secure", "metrics-cert-path")
}

// Warn adds a warning about a flag that has no effect. n may be nil.
func (s *SecureSettings) Warn(n *cli.Notices) {
	if !s.Secure && s.CertPath != "" && n != nil {
		n.Add("--metrics-cert-path", "has no effect without --metrics-secure")
	}
}

// SecureServer returns the configuration of the server; nil for plain HTTP.
func (s *SecureSettings) SecureServer(api *rest.Config) *Secure {
	if !s.Secure {
		return nil
	}
	return &Secure{API: api, CertPath: s.CertPath}
}

// Secure says with which certificate HTTPS is served, and which API server reviews the callers.
type Secure struct {
	API      *rest.Config
	CertPath string // folder of tls.crt and tls.key; empty for a self-signed certificate

	reviews reviewer // of tests; nil for the API server
}

// reviewsOf returns the reviewer of the callers.
func (s *Secure) reviewsOf() (reviewer, error) {
	if s.reviews != nil {
		return s.reviews, nil
	}
	return newReviewer(s.API)
}

// listen returns a listener that speaks TLS on the connections of another one. HTTP/2 is off: its
// streams can be reset faster than the server frees them.
func (s *Secure) listen(ctx context.Context, plain net.Listener) (net.Listener, error) {
	get, err := s.certificate(ctx)
	if err != nil {
		return nil, err
	}
	return tls.NewListener(plain, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: get,
	}), nil
}

// certificate returns a function that returns the certificate of each handshake.
func (s *Secure) certificate(
	ctx context.Context,
) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	if s.CertPath == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "localhost"
		}
		chain, key, err := certutil.GenerateSelfSignedCertKey(host, []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
		if err != nil {
			return nil, fmt.Errorf("--metrics-secure: make a certificate: %w", err)
		}
		own, err := tls.X509KeyPair(chain, key)
		if err != nil {
			return nil, fmt.Errorf("--metrics-secure: make a certificate: %w", err)
		}
		return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &own, nil }, nil
	}
	get, err := FileCertificate(ctx, filepath.Join(s.CertPath, "tls.crt"), filepath.Join(s.CertPath, "tls.key"))
	if err != nil {
		return nil, fmt.Errorf("--metrics-cert-path=%s: %w", s.CertPath, err)
	}
	return get, nil
}

// FileCertificate returns a function that returns the certificate of two files for each handshake. The
// files are read again when they change. It is an error if they are no certificate now.
func FileCertificate(
	ctx context.Context, chain, key string,
) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	files := &certificateFiles{
		chainPath: chain, keyPath: key, clock: clock.RealClock{}, log: logr.FromContextOrDiscard(ctx),
	}
	if _, err := files.get(nil); err != nil {
		return nil, err
	}
	return files.get, nil
}

// reloadEvery is how long a certificate is used before its files are read again. A renewed one is
// mounted long before the old one expires.
const reloadEvery = 10 * time.Second

// certificateFiles is a certificate that is read again when its files have changed. The two files of
// a mounted Secret are replaced at once, and those of other tools one after the other: a pair that
// does not fit together is logged, and the one before it is used.
type certificateFiles struct {
	chainPath, keyPath string
	clock              clock.PassiveClock
	log                logr.Logger

	mu         sync.Mutex
	read       time.Time
	chain, key []byte // of the pair in use
	pair       *tls.Certificate
}

// get implements tls.Config.GetCertificate.
func (c *certificateFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pair != nil && c.clock.Since(c.read) < reloadEvery {
		return c.pair, nil
	}
	c.read = c.clock.Now()
	err := c.load()
	if err != nil && c.pair == nil {
		return nil, err
	}
	if err != nil {
		c.log.Error(err, "cannot read the certificate again; using the one before", "file", c.chainPath)
	}
	return c.pair, nil
}

// load reads the files. Nothing changes if they are as before or no pair.
func (c *certificateFiles) load() error {
	chain, err := os.ReadFile(c.chainPath)
	if err != nil {
		return err
	}
	key, err := os.ReadFile(c.keyPath)
	if err != nil {
		return err
	}
	if bytes.Equal(chain, c.chain) && bytes.Equal(key, c.key) {
		return nil
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", filepath.Base(c.chainPath), filepath.Base(c.keyPath), err)
	}
	if c.pair != nil {
		c.log.Info("the certificate was read again", "file", c.chainPath)
	}
	c.chain, c.key, c.pair = chain, key, &pair
	return nil
}
