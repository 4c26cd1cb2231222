package explain

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"

	"github.com/spf13/pflag"
	"k8s.io/client-go/transport"
)

// Endpoints are the HTTP endpoints of roles that flags name, and how those are reached that serve with
// --metrics-secure.
type Endpoints struct {
	URLs              []string
	tokenFile, caFile string
}

// AddFlags adds the flags. what says what is read of the endpoints.
func (e *Endpoints) AddFlags(f *pflag.FlagSet, what string) {
	f.StringArrayVar(&e.URLs, "role-endpoint", nil,
		"`url` of the HTTP endpoint of a role of Purser with --purser-life, such as http://127.0.0.1:8080, "+what+
			"; may be given several times")
	f.StringVar(&e.tokenFile, "role-token-file", "",
		"`file` with the bearer token for the https addresses of --role-endpoint, which roles with --metrics-secure "+
			"ask for; it is read again when it changes, and sent nowhere else")
	f.StringVar(&e.caFile, "role-ca-file", "",
		"`file` of the authorities that the certificates of the https addresses of --role-endpoint are checked with; "+
			"without it those of the system, and on the loopback address, where a port-forward ends, none")
}

// Validate checks the addresses, and that the files are there.
func (e *Endpoints) Validate() error {
	isAnySecure := false
	for _, endpoint := range e.URLs {
		u, err := url.Parse(endpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("--role-endpoint=%s: expected an address such as http://127.0.0.1:8080", endpoint)
		}
		isAnySecure = isAnySecure || u.Scheme == "https"
	}
	if !isAnySecure && (e.tokenFile != "" || e.caFile != "") {
		return errors.New("--role-token-file and --role-ca-file: they are for https addresses of --role-endpoint")
	}
	for _, endpoint := range e.URLs {
		if _, err := e.transport(endpoint); err != nil {
			return err
		}
	}
	return nil
}

// Client returns the client of an endpoint. It follows no redirect.
func (e *Endpoints) Client(endpoint string) (*http.Client, error) {
	through, err := e.transport(endpoint)
	return &http.Client{
		Transport:     through,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, err
}

// transport returns how an endpoint is reached. The token goes to https addresses alone.
func (e *Endpoints) transport(endpoint string) (http.RoundTripper, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "https" {
		return http.DefaultTransport, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	switch {
	case e.caFile != "":
		text, err := os.ReadFile(e.caFile)
		if err != nil {
			return nil, fmt.Errorf("--role-ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--role-ca-file=%s: it has no certificate", e.caFile)
		}
	case isLoopback(u.Hostname()):
		config.InsecureSkipVerify = true // a port-forward, whose other end the API server has chosen
		config.VerifyConnection = pinned()
	}
	through := &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment}
	if e.tokenFile == "" {
		return through, nil
	}
	with, err := transport.NewBearerAuthWithRefreshRoundTripper("", e.tokenFile, through)
	if err != nil {
		return nil, fmt.Errorf("--role-token-file: %w", err)
	}
	return with, nil
}

// pinned accepts the certificate of the first connection and no other one: when a port-forward has ended,
// another user of the machine can listen at its port, and must not get the token.
func pinned() func(tls.ConnectionState) error {
	var mu sync.Mutex
	var first []byte
	return func(s tls.ConnectionState) error {
		mu.Lock()
		defer mu.Unlock()
		now := s.PeerCertificates[0].Raw // a server has one
		if first == nil {
			first = now
		}
		if !bytes.Equal(first, now) {
			return errors.New("another certificate than before: another program answers at the port, or the role " +
				"has started again; begin again, or give --role-ca-file")
		}
		return nil
	}
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
