package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// readyPoll is short: on average a start waits half of it in vain, and asking a process that is not
// up costs nothing.
const readyPoll = 20 * time.Millisecond

// probe asks the API server, as its administrator, whether something is there.
type probe struct {
	host   string
	client *http.Client
}

func newProbe(cfg *rest.Config) (*probe, error) {
	pair, err := tls.X509KeyPair(cfg.CertData, cfg.KeyData)
	if err != nil {
		return nil, fmt.Errorf("using the administrator's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cfg.CAData)
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13,
	}}
	return &probe{host: cfg.Host, client: &http.Client{Transport: transport}}, nil
}

func (p *probe) close() { p.client.CloseIdleConnections() }

// wait polls a path until it answers 200, or ctx is done, or a component has ended.
func (p *probe) wait(ctx context.Context, path string, ended <-chan struct{}) error {
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		err := p.get(ctx, path)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ended:
			return errEnded
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w; last answer: %w", path, context.Cause(ctx), err)
		}
	}
}

// errEnded says that a component has ended; the cluster knows which and why.
var errEnded = errors.New("a component ended")

func (p *probe) get(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.host+path, nil)
	if err != nil {
		return err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	return err
}
