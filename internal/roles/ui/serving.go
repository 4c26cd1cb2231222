package ui

import (
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/roles/explain"
	pages "github.com/purser-csi/purser/internal/ui"
)

// serving says how the pages are served to several users.
type serving struct {
	certificate, key string
	authenticate     bool
	hosts            []string
}

func (s *serving) flags(f *pflag.FlagSet) {
	f.BoolVar(&s.authenticate, "authenticate", false,
		"serve several users: each gives a token of the cluster, which is checked by a TokenReview, and must be "+
			"allowed to list what the pages show, which is checked by SubjectAccessReviews")
	f.StringVar(&s.certificate, "tls-cert-file", "", "`path` of the certificate to serve with TLS")
	f.StringVar(&s.key, "tls-private-key-file", "", "`path` of the private key of the certificate")
	f.StringArrayVar(&s.hosts, "allowed-host", nil,
		"`name`, with its port if that is not the default, under which the pages may be asked for, with "+
			"--authenticate; without it all; may be given several times")
}

// validate refuses to serve tokens or pages in plain text to other machines.
func (s *serving) validate(listen string) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("--listen=%s: expected an address with a port, such as 127.0.0.1:8080: %w", listen, err)
	}
	ip := net.ParseIP(host)
	isLoopback := host == "localhost" || ip != nil && ip.IsLoopback()
	switch {
	case (s.certificate == "") != (s.key == ""):
		return errors.New("--tls-cert-file and --tls-private-key-file: give both or none")
	case !isLoopback && (s.certificate == "" || !s.authenticate):
		return fmt.Errorf("--listen=%s: other machines can reach it; give --authenticate, --tls-cert-file and "+
			"--tls-private-key-file, or listen on 127.0.0.1 with a proxy in front that has TLS", listen)
	case !s.authenticate && s.certificate != "":
		return errors.New("--tls-cert-file: it is for --authenticate; pages of one user are on the loopback address")
	case !s.authenticate && len(s.hosts) > 0:
		return errors.New("--allowed-host: it is for --authenticate; pages of one user are on the loopback address")
	}
	return nil
}

// opener returns the function that opens files; nil for a server of several users, whose files are
// not those of the others.
func (s *serving) opener() func(map[string][]byte) (*pages.State, error) {
	if s.authenticate {
		return nil
	}
	return explain.OpenFiles
}

func (s *serving) address(listener net.Listener) string {
	if s.certificate != "" {
		return "https://" + listener.Addr().String() + "/"
	}
	return "http://" + listener.Addr().String() + "/"
}

// reviewed returns the handler of pages for several users.
func (s *serving) reviewed(source *explain.Pages, inner http.Handler) (http.Handler, error) {
	config, err := source.RESTConfig()
	if err != nil {
		return nil, err
	}
	reviewer, err := newReviewer(config)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }) // of kubelets
	mux.Handle("/", pages.Guarded(reviewer.guard(inner, s.certificate != ""), pages.Access{Hosts: s.hosts}))
	return mux, nil
}
