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
	hosts   []*url.URL // scheme and host of those that may receive the headers
	ca      []byte     // certificates of authorities besides those of the system
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
	if len(values) == 0 {
		return nil, errors.New(
			"spec.headersSecret: there is no such Secret in the populator's namespace, or it is empty")
	}
	if !slices.Contains(words(values[keyNamespaces]), namespace) {
		return nil, fmt.Errorf("spec.headersSecret: the key %q of the Secret does not have the namespace %q; an "+
			"administrator adds the namespaces whose sources may use it", keyNamespaces, namespace)
	}
	s := &secret{headers: http.Header{}, ca: []byte(values[keyCA])}
	for _, entry := range words(values[keyHosts]) {
		host, is := parseHost(entry)
		if !is {
			return nil, fmt.Errorf("spec.headersSecret: the key %q of the Secret has an entry that is none of HOST, "+
				"HOST:PORT, http://HOST and http://HOST:PORT; an administrator corrects it", keyHosts)
		}
		s.hosts = append(s.hosts, host)
	}
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

// parseHost parses an entry of the key hosts. One without a scheme is for https.
func parseHost(entry string) (host *url.URL, is bool) {
	if !strings.Contains(entry, "://") {
		entry = "https://" + entry
	}
	u, err := url.Parse(entry)
	if err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, false
	}
	return u, *u == (url.URL{Scheme: u.Scheme, Host: u.Host})
}

// isFor reports whether the headers may be sent to the scheme, host and port of a URL.
func (s *secret) isFor(u *url.URL) bool {
	return slices.ContainsFunc(s.hosts, func(host *url.URL) bool {
		return host.Scheme == u.Scheme && strings.EqualFold(host.Hostname(), u.Hostname()) && portOf(host) == portOf(u)
	})
}

// portOf returns the port of an http or https URL.
func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	}
	return "443"
}

// apply adds the headers to a request for one of the hosts, and removes them from one for another.
func (s *secret) apply(request *http.Request) {
	for name := range s.headers {
		if s.isFor(request.URL) {
			request.Header.Set(name, s.headers.Get(name))
		} else {
			request.Header.Del(name)
		}
	}
}

// errAddress is a connection to an address that no source may name.
var errAddress = errors.New("the address is a loopback or link-local one or that of a cloud's metadata service, " +
	"which only a populator with --allow-local-addresses connects to")

// metadataServices are the addresses of clouds' metadata services that are not link-local.
var metadataServices = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),   // AWS
	netip.MustParseAddr("fd20:ce::254"),    // Google
	netip.MustParseAddr("100.100.100.200"), // Alibaba
	netip.MustParseAddr("168.63.129.16"),   // Azure
	netip.MustParseAddr("192.0.0.192"),     // Oracle
}

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
	}, nil
}

func isLocal(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.Contains(metadataServices, a) || a.IsLoopback() || a.IsUnspecified() || a.IsMulticast() ||
		a.IsLinkLocalUnicast() || a.IsInterfaceLocalMulticast()
}

// checkRedirect is called before each redirect is followed. net/http sends the headers of the first request
// with each one, but for some that it knows, and a Referer, whose query may be secret.
func checkRedirect(s *secret, to *http.Request, via []*http.Request) error {
	switch {
	case len(via) > mostRedirects:
		return permanentError{fmt.Sprintf("more than %d redirects; give the URL that they lead to", mostRedirects)}
	case to.URL.Scheme != "https" && to.URL.Scheme != "http":
		return permanentError{fmt.Sprintf("a redirect to the scheme %q", to.URL.Scheme)}
	case to.URL.Scheme == "http" && via[len(via)-1].URL.Scheme == "https":
		return permanentError{"a redirect from https to http; give an https URL that stays so"}
	}
	to.Header.Del("Referer")
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

// get sends a request, with the headers of the secret to its hosts, also after a redirect. Errors have
// no query of a URL.
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
	follow := *client
	follow.CheckRedirect = func(to *http.Request, via []*http.Request) error { return checkRedirect(s, to, via) }
	answer, err := follow.Do(request)
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
