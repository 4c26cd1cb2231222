package livenessprobe

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/livenessprobe/rules"
	"github.com/purser-csi/purser/internal/printable"
)

// Config is the driver to check.
type Config struct {
	Conn    *csirpc.Conn
	Timeout time.Duration // --probe-timeout: for the connection and Probe together (LP-2)
	Clock   clock.Clock
}

const (
	// nameTimeout is for one GetPluginInfo; it is repeated without a limit (LP-11).
	nameTimeout = 10 * time.Second
	// The pause between two of them grows from the first to the second.
	firstPause, mostPause = 100 * time.Millisecond, 5 * time.Second
	// warnEvery is the shortest time between two warnings about callers that do not wait.
	warnEvery = 10 * time.Minute
)

// Prober checks one driver.
type Prober struct {
	cfg Config

	mu     sync.Mutex
	driver rules.Driver // without the answer of Probe
	flight *flight      // the Probe in flight; nil for none
	warned time.Time
}

// flight is one Probe, and the checks that wait for it.
type flight struct {
	done   chan struct{}
	driver rules.Driver // valid once done is closed
}

// New returns a prober that answers "waiting" before Run has learned the driver's name.
func New(cfg Config) *Prober {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &Prober{cfg: cfg, driver: rules.Driver{Problem: "it was not asked yet"}}
}

// Run asks the driver for its name until it answers (LP-11), and waits for the end of ctx then.
func (p *Prober) Run(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx)
	log.Info("Calling CSI driver to discover driver name")
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		name, err := p.cfg.Conn.Name(ctx, nameTimeout)
		if err == nil {
			log.Info("CSI driver name", "driver", printable.Line(name))
			p.mu.Lock()
			p.driver = rules.Driver{Named: true}
			p.mu.Unlock()
			<-ctx.Done()
			return nil
		}
		p.mu.Lock()
		p.driver.Problem = printable.Line(err.Error())
		p.mu.Unlock()
		if ctx.Err() == nil {
			log.Info("Failed to establish connection to CSI driver", "problem", printable.Line(err.Error()))
		}
		timer := p.cfg.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// Check returns nil when the driver is alive and ready.
func (p *Prober) Check(ctx context.Context) error {
	if code, text := rules.Answer(p.ask(ctx)); code != http.StatusOK {
		return errors.New(text)
	}
	return nil
}

// ServeHTTP implements http.Handler: GET /healthz (LP-12).
func (p *Prober) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := p.cfg.Clock.Now()
	driver := p.ask(r.Context())
	log := logr.FromContextOrDiscard(r.Context())
	if r.Context().Err() != nil {
		p.warn(log, p.cfg.Clock.Since(began))
	}
	code, text := rules.Answer(driver)
	switch {
	case code == http.StatusOK:
		log.V(5).Info("Health check succeeded")
	case driver.Named && driver.Failed == "":
		log.Info("Driver responded but is not ready")
	default:
		log.Info("Health check failed", "problem", text)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text)) // the caller may be gone
}

// ask returns the answer of the Probe in flight, or of a new one. A caller that closes its request
// does not end the Probe, which others may wait for (LP-H1).
func (p *Prober) ask(ctx context.Context) rules.Driver {
	p.mu.Lock()
	if !p.driver.Named {
		defer p.mu.Unlock()
		return p.driver
	}
	f := p.flight
	if f == nil {
		f = &flight{done: make(chan struct{})}
		p.flight = f
		go p.probe(context.WithoutCancel(ctx), f)
	}
	p.mu.Unlock()
	select {
	case <-f.done:
		return f.driver
	case <-ctx.Done():
		return rules.Driver{Named: true, Failed: "the caller closed the request before Probe had answered"}
	}
}

// probe makes one Probe call.
func (p *Prober) probe(ctx context.Context, f *flight) {
	ready, err := p.cfg.Conn.ProbeWithin(ctx, p.cfg.Timeout)
	f.driver = rules.Driver{Named: true, Ready: ready}
	if err != nil {
		f.driver.Failed = printable.Line(err.Error())
	}
	p.mu.Lock()
	p.flight = nil
	p.mu.Unlock()
	close(f.done)
}

// warn logs at times that callers do not wait for the answer.
func (p *Prober) warn(log logr.Logger, waited time.Duration) {
	text := rules.LateWarning(waited, p.cfg.Timeout)
	p.mu.Lock()
	defer p.mu.Unlock()
	if text == "" || !p.warned.IsZero() && p.cfg.Clock.Since(p.warned) < warnEvery {
		return
	}
	p.warned = p.cfg.Clock.Now()
	log.Info("checks fail although the driver may be alive", "cause", text)
}
