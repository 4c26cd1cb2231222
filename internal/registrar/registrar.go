package registrar

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/utils/clock"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/printable"
	"github.com/purser-csi/purser/internal/registrar/rules"
)

// Config is the driver to register, and where.
type Config struct {
	Conn     *csirpc.Conn
	Dir      string        // folder that the kubelet watches, as this process sees it
	Endpoint string        // the driver's socket as the kubelet sees it
	Timeout  time.Duration // for GetPluginInfo and NodeGetInfo, and GetInfo of a health check
	Clock    clock.Clock
	// Notified is called with what the kubelet has done before and after each of its answers; may be nil.
	Notified func(driver string, before, after rules.Kubelet)
}

const (
	// inspectEvery is how often the socket is inspected without a notification about its folder.
	inspectEvery = 10 * time.Second
	// The pause between two attempts grows from the first to the second.
	firstPause, mostPause = 100 * time.Millisecond, 5 * time.Second
	// mostNodeQuestions is how often a driver is asked for its node in vain: not all have a node service
	// that answers.
	mostNodeQuestions = 5
)

// Registrar registers one driver.
type Registrar struct {
	cfg  Config
	lost chan struct{} // the connection to the driver is lost

	mu        sync.Mutex
	published *publication
	what      rules.Published
	step      rules.Step
	last      string // the problem at the end of Run

	// These belong to Run.
	driver        rules.Driver
	ask           bool // the driver is to be asked for its name
	nodeQuestions int
	said          string // the problem that was logged last
	watches       sync.WaitGroup
}

// ErrKeepSocket is the cause of a context whose end leaves the socket where it is: the process is
// started again at once, and until then the driver stays registered.
var ErrKeepSocket = errors.New("the process is started again")

// New returns a registrar that does nothing before Run.
func New(cfg Config) *Registrar {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &Registrar{
		cfg: cfg, lost: make(chan struct{}, 1), ask: true,
		driver: rules.Driver{Problem: "it was not asked yet"}, step: rules.Step{Problem: "the start is not complete"},
	}
}

// Run keeps the driver registered until ctx ends, and removes the socket then, which ends the
// registration, unless the cause is [ErrKeepSocket]. No failure ends it: each is retried.
func (r *Registrar) Run(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx)
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", r.cfg.Dir, err)
	}
	defer watcher.Close()
	pause := firstPause
	for ctx.Err() == nil {
		// Each time, since the folder may be a new one. Its absence is seen by rules.
		_ = watcher.Add(r.cfg.Dir)
		r.askDriver(ctx)
		step := r.next(false)
		r.say(log, step.Problem)
		failed := r.apply(ctx, step)
		if failed != nil {
			log.Error(failed, "cannot publish the registration socket; trying again", "retryIn", pause.String())
		}
		wait := inspectEvery
		if step.Retry || failed != nil {
			wait = pause
			pause = min(2*pause, mostPause)
		} else {
			pause = firstPause
		}
		if step.Action != rules.Keep && failed == nil {
			continue // see what it led to
		}
		r.wait(ctx, watcher, wait)
	}
	r.watches.Wait()
	r.end(ctx)
	return nil
}

// wait returns after a change, or when the time has passed.
func (r *Registrar) wait(ctx context.Context, watcher *fsnotify.Watcher, longest time.Duration) {
	timer := r.cfg.Clock.NewTimer(longest)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.lost:
			logr.FromContextOrDiscard(ctx).Info(
				"Lost connection to the csi driver, asking it again", "driver", r.driver.Name,
			)
			r.ask = true
			return
		case event := <-watcher.Events:
			if r.concerns(event.Name) {
				return
			}
		case err := <-watcher.Errors:
			logr.FromContextOrDiscard(ctx).Error(err, "watch the registration sockets", "folder", r.cfg.Dir)
			return
		case <-timer.C():
			return
		}
	}
}

// concerns reports whether a change of a file may be about the own socket. The folder has the
// sockets of all drivers of the node.
func (r *Registrar) concerns(file string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.published == nil || file == r.published.path || file == r.cfg.Dir
}

// askDriver asks the driver for its name, at the start and after a loss of the connection, and for
// its node once that is published.
func (r *Registrar) askDriver(ctx context.Context) {
	log := logr.FromContextOrDiscard(ctx)
	if r.ask {
		log.V(4).Info("Calling CSI driver to discover driver name")
		name, err := r.cfg.Conn.Name(ctx, r.cfg.Timeout)
		if err != nil {
			r.driver.Problem = printable.Line(err.Error())
			return
		}
		log.Info("CSI driver name", "driver", printable.Line(name))
		r.driver = rules.Driver{Name: name}
		r.ask, r.nodeQuestions = false, 0
		r.watches.Go(func() {
			if r.cfg.Conn.WaitBroken(ctx) == nil {
				select {
				case r.lost <- struct{}{}:
				default:
				}
			}
		})
	}
	r.mu.Lock()
	isPublished := r.published != nil
	r.mu.Unlock()
	if !isPublished || r.driver.Node != "" || r.nodeQuestions >= mostNodeQuestions {
		return
	}
	r.nodeQuestions++
	info, err := r.cfg.Conn.NodeInfo(ctx, r.cfg.Timeout)
	if status.Code(err) == codes.Unimplemented {
		r.nodeQuestions = mostNodeQuestions
	}
	if err != nil {
		log.V(4).Info("the csi driver does not say its node, so a change is not noticed", "problem", err.Error())
		return
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(info)
	if err == nil {
		r.driver.Node = string(text)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.what.Node == "" {
		r.what.Node = r.driver.Node // the kubelet registers it
	}
}

// next decides about the present state.
func (r *Registrar) next(stopping bool) rules.Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	state := rules.State{Driver: r.driver, Published: r.what, Dir: r.cfg.Dir, Stopping: stopping}
	switch {
	case r.published != nil:
		state.Socket = inspect(r.published.path, r.published)
	case rules.NameProblem(r.cfg.Dir, r.driver.Name) == "":
		state.Socket = inspect(rules.Path(r.cfg.Dir, r.driver.Name), nil)
	}
	r.step = rules.Next(state)
	return r.step
}

// apply does what was decided.
func (r *Registrar) apply(ctx context.Context, step rules.Step) error {
	r.mu.Lock()
	old := r.published
	r.mu.Unlock()
	switch step.Action {
	case rules.Publish:
		name := r.driver.Name
		notified := func(before, after rules.Kubelet) {
			if r.cfg.Notified != nil {
				r.cfg.Notified(name, before, after)
			}
		}
		service := NewService(name, r.cfg.Endpoint, r.cfg.Clock.Now, notified)
		made, err := publish(ctx, rules.Path(r.cfg.Dir, name), service)
		if err != nil {
			return err
		}
		r.mu.Lock()
		r.published, r.what = made, rules.Published{Name: name, Node: r.driver.Node}
		r.mu.Unlock()
		if old != nil {
			old.stop()
		}
	case rules.Withdraw:
		r.mu.Lock()
		r.published, r.what = nil, rules.Published{}
		r.mu.Unlock()
		err := os.Remove(old.path)
		old.stop()
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	case rules.Keep:
	}
	return nil
}

// end removes the own socket, and leaves that of another process.
func (r *Registrar) end(ctx context.Context) {
	r.mu.Lock()
	r.last = r.problem()
	r.mu.Unlock()
	step := r.next(true)
	if step.Action == rules.Withdraw && !errors.Is(context.Cause(ctx), ErrKeepSocket) {
		if err := r.apply(ctx, step); err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "cannot remove the registration socket")
		}
		return
	}
	r.mu.Lock()
	old := r.published
	r.published, r.what = nil, rules.Published{}
	r.mu.Unlock()
	if old != nil {
		old.stop()
	}
}

// say logs a problem when it begins or changes.
func (r *Registrar) say(log logr.Logger, problem string) {
	if problem != "" && problem != r.said {
		log.Info("the driver cannot be registered as it is", "problem", problem)
	}
	r.said = problem
}

// Check returns the answer to a health check, and why the driver is not registered; empty if it is.
func (r *Registrar) Check(ctx context.Context) (code int, text, notReady string) {
	r.mu.Lock()
	published := r.published
	check := rules.Check{Published: r.what, Step: r.step}
	r.mu.Unlock()
	if published != nil {
		check.Socket = inspect(published.path, published)
		check.Kubelet = published.State().Problem(r.cfg.Clock.Now())
		if check.Socket != rules.SocketAbsent {
			name, err := nameAt(ctx, published.path, r.cfg.Timeout)
			if check.Name = name; err != nil {
				check.Failed = printable.Line(err.Error())
			}
		}
	}
	code, text = rules.Health(check)
	return code, text, rules.Ready(check)
}

// Ready returns nil when the driver is registered.
func (r *Registrar) Ready(ctx context.Context) error {
	if _, _, problem := r.Check(ctx); problem != "" {
		return errors.New(problem)
	}
	return nil
}

// LastProblem returns why the driver was not registered before Run ended; empty if it was.
func (r *Registrar) LastProblem() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// problem returns why the driver is not registered, without a look at the socket; empty if it is.
func (r *Registrar) problem() string {
	switch {
	case r.step.Problem != "":
		return r.step.Problem
	case r.published == nil:
		return "nothing is published for the kubelet yet"
	}
	return r.published.State().Problem(r.cfg.Clock.Now())
}
