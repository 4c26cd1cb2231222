package httpsource

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Limits of a download.
const (
	mostRedirects  = 5
	connectTimeout = 30 * time.Second
	answerTimeout  = time.Minute
)

// secret has the headers of a Secret, and who may use them.
type secret struct {
	headers http.Header
	hosts   []string // that may receive the headers
	ca      []byte   // certificates of authorities besides those of the system
}

// The keys of the Secret.
const (
	keyNamespaces = "namespaces"
	keyHosts      = "hosts"
	keyCA         = "ca.crt"
	keyHeader     = "header."
)

// readSecret reads a mounted Secret for a source of a namespace. Errors name keys, never values.
func readSecret(dir, namespace string) (*secret, error) {
	if dir == "" {
		return &secret{}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("spec.headersSecret: %w", err)
	}
	values := map[string]string{}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "..") { // how a kubelet mounts it
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("spec.headersSecret: key %q cannot be read", entry.Name())
		}
		values[entry.Name()] = string(raw)
	}
	if !slices.Contains(words(values[keyNamespaces]), namespace) {
		return nil, fmt.Errorf("spec.headersSecret: the key %q of the Secret does not have the namespace %q; an "+
			"administrator adds the namespaces whose sources may use it", keyNamespaces, namespace)
	}
	s := &secret{headers: http.Header{}, hosts: words(values[keyHosts]), ca: []byte(values[keyCA])}
	if len(s.hosts) == 0 {
		return nil, fmt.Errorf("spec.headersSecret: the Secret has no key %q; an administrator adds the hosts that "+
			"may receive the headers", keyHosts)
	}
	for key, value := range values {
		if name, is := strings.CutPrefix(key, keyHeader); is {
			s.headers.Set(name, strings.TrimSpace(value))
		}
	}
	return s, nil
}

// words returns the words of a list that is separated by commas or white space.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) })
}

// apply adds the headers to a request for one of the hosts, and removes them from one for another.
func (s *secret) apply(request *http.Request) {
	for name := range s.headers {
		if slices.Contains(s.hosts, request.URL.Host) || slices.Contains(s.hosts, request.URL.Hostname()) {
			request.Header.Set(name, s.headers.Get(name))
		} else {
			request.Header.Del(name)
		}
	}
}

// errAddress is a connection to an address that no source may name.
var errAddress = errors.New("the address is a loopback or link-local one, which only a populator with " +
	"--allow-local-addresses connects to")

// newClient returns the client of a download.
func newClient(s *secret, allowLocal bool) (*http.Client, error) {
	dialer := &net.Dialer{Timeout: connectTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		if host, err := netip.ParseAddrPort(address); !allowLocal && (err != nil || isLocal(host.Addr())) {
			return errAddress
		}
		return nil
	}}
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(s.ca) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(s.ca) {
			return nil, fmt.Errorf("spec.headersSecret: the key %q has no certificate in PEM", keyCA)
		}
		trust.RootCAs = pool
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: trust, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: connectTimeout, ResponseHeaderTimeout: answerTimeout, DisableCompression: true,
		},
		CheckRedirect: func(to *http.Request, via []*http.Request) error { return checkRedirect(s, to, via) },
	}, nil
}

func isLocal(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsLoopback() || a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast() ||
		a.IsInterfaceLocalMulticast()
}

// checkRedirect is called before each redirect is followed. net/http sends the headers of the first request
// with each one, but for some that it knows.
func checkRedirect(s *secret, to *http.Request, via []*http.Request) error {
	switch {
	case len(via) > mostRedirects:
		return permanentError{fmt.Sprintf("more than %d redirects; give the URL that they lead to", mostRedirects)}
	case to.URL.Scheme != "https" && to.URL.Scheme != "http":
		return permanentError{fmt.Sprintf("a redirect to the scheme %q", to.URL.Scheme)}
	case to.URL.Scheme == "http" && via[len(via)-1].URL.Scheme == "https":
		return permanentError{"a redirect from https to http; give an https URL that stays so"}
	}
	s.apply(to)
	if to.URL.Host != via[0].URL.Host { // a token of the registry, which is not the secret's
		to.Header.Del("Authorization")
		s.apply(to)
	}
	return nil
}

// permanentError is a failure that a retry would not change.
type permanentError struct{ text string }

// Error implements error.
func (e permanentError) Error() string { return e.text }

// get sends a request. Errors have no query of a URL.
func get(
	ctx context.Context, client *http.Client, s *secret, address string, header http.Header,
) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, permanentError{"not a URL"}
	}
	request.Header = header.Clone()
	request.Header.Set("User-Agent", "purser-populate")
	s.apply(request)
	answer, err := client.Do(request)
	if named, is := errors.AsType[*url.Error](err); is {
		err = named.Err
	}
	if errors.Is(err, errAddress) {
		return nil, permanentError{errAddress.Error()}
	}
	return answer, err
}

// statusError returns the error of an answer; nil for a success.
func statusError(answer *http.Response) error {
	text := fmt.Sprintf("the server answered %q", answer.Status)
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return permanentError{text + "; give a spec.headersSecret whose headers the server accepts"}
	case code == http.StatusNotFound, code == http.StatusGone:
		return permanentError{text + "; check that the URL is right and that the file exists"}
	case code == http.StatusTooManyRequests, code == http.StatusRequestTimeout, code >= 500:
		return errors.New(text)
	}
	return permanentError{text}
}
