package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// Config is what a Runner needs. The zero value is ready for use.
type Config struct {
	// Patience bounds a call that names no bound; a minute when zero.
	Patience time.Duration
	// Grace is how long a killed process may take to go away; 5 seconds when
	// zero.
	Grace time.Duration
	// AtOnce is how many tools run at a time; 16 when zero. Each costs a
	// processor some 30 ms.
	AtOnce int
	// LookPath finds a program; exec.LookPath when nil.
	LookPath func(string) (string, error)
	// Environment is added to that of every tool.
	Environment []string
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Runner runs tools.
type Runner struct {
	config Config
	slots  chan struct{}

	mutex sync.Mutex
	// stuck are the targets of processes that did not even react to
	// SIGKILL, and since when they run.
	stuck map[string]time.Time
}

// NewRunner has the defaults.
func NewRunner(c Config) *Runner {
	if c.Patience == 0 {
		c.Patience = time.Minute
	}
	if c.Grace == 0 {
		c.Grace = 5 * time.Second
	}
	if c.AtOnce == 0 {
		c.AtOnce = 16
	}
	if c.LookPath == nil {
		c.LookPath = exec.LookPath
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Runner{config: c, slots: make(chan struct{}, c.AtOnce), stuck: map[string]time.Time{}}
}

// Present says what is missing to run a program; nil when nothing is.
func (r *Runner) Present(p Program) error {
	_, err := r.find(p)
	return err
}

func (r *Runner) find(p Program) (string, error) {
	path, err := r.config.LookPath(string(p))
	if err != nil {
		return "", fault.Unready.Errorf("program %s is not installed: %w; install the package %s where the driver runs", p, err, packaged[p])
	}
	return path, nil
}

// Run runs a tool and gives what it printed.
func (r *Runner) Run(ctx context.Context, c Call) (stdout []byte, err error) {
	if since, is := r.stuckSince(c.Target); is {
		return nil, stuckError(c, since, r.config.Now())
	}
	path, err := r.find(c.Program)
	if err != nil {
		return nil, err
	}
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%s did not begin, because %d others run: %w", c.doing(), cap(r.slots), ctx.Err())
	}
	if c.Patience == 0 {
		c.Patience = r.config.Patience
	}
	bounded, cancel := context.WithTimeout(ctx, c.Patience)
	defer cancel()
	if err := bounded.Err(); err != nil {
		return nil, c.ended(ctx, c.Patience, nil)
	}
	p, err := c.prepare()
	if err != nil {
		return nil, fault.Internal.Errorf("%s: %w", c.doing(), err)
	}
	defer func() { _ = p.file.Close() }() // a nil file says that it is none
	child := &process{path: path, prepared: p, environment: r.config.Environment}
	return r.wait(ctx, bounded, c, child)
}

// wait lets the process run in a goroutine of its own: one that the kernel
// does not let go of must not keep the caller.
func (r *Runner) wait(caller, bounded context.Context, c Call, child *process) ([]byte, error) {
	began := r.config.Now()
	started, done := make(chan error, 1), make(chan ending, 1)
	go child.run(started, done)
	if err := <-started; err != nil {
		return nil, fault.Internal.Errorf("start %s: %w", c.Program, err)
	}
	select {
	case end := <-done:
		return child.outcome(c, end.err)
	case <-bounded.Done():
	}
	child.kill()
	grace := time.NewTimer(r.config.Grace)
	defer grace.Stop()
	select {
	case end := <-done:
		if end.err == nil { // it was faster than the signal
			return child.stdout.Bytes(), nil
		}
		return nil, c.ended(caller, c.Patience, child.stderr.bytes())
	case <-grace.C:
		r.setStuck(c.Target, began, done)
		return nil, stuckError(c, began, r.config.Now())
	}
}

func (r *Runner) stuckSince(target string) (time.Time, bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	since, is := r.stuck[target]
	return since, is && target != ""
}

func (r *Runner) setStuck(target string, since time.Time, done <-chan ending) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.stuck[target] = since
	go func() {
		<-done
		r.mutex.Lock()
		defer r.mutex.Unlock()
		delete(r.stuck, target)
	}()
}

// process is one child and what it printed.
type process struct {
	path        string
	prepared    prepared
	environment []string
	command     *exec.Cmd
	stdout      bytes.Buffer
	stderr      tail
}

// ending is how a process ended.
type ending struct{ err error }

// lateOutput bounds the wait for output that a daemon which the tool left
// behind could still write.
const lateOutput = time.Second

// run starts the child and waits for it. The kernel kills the child when the
// thread that started it ends, so the thread is not let go before: with this
// driver killed, no tool goes on beside those of the next one. A daemon that a
// tool leaves behind is a child of nobody and lives on.
func (p *process) run(started chan<- error, done chan<- ending) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p.command = exec.Command(p.path, p.prepared.arguments...)
	p.command.Env = slices.Concat(p.prepared.environment, p.environment)
	p.command.Stdout, p.command.Stderr = &p.stdout, &p.stderr
	if p.prepared.file != nil {
		p.command.ExtraFiles = []*os.File{p.prepared.file}
	}
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.command.WaitDelay = lateOutput
	err := p.command.Start()
	started <- err
	if err == nil {
		done <- ending{p.command.Wait()}
	}
}

// kill ends the tool and what it started.
func (p *process) kill() {
	_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL)
}

func (p *process) outcome(c Call, err error) ([]byte, error) {
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		return p.stdout.Bytes(), nil
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return nil, fault.Internal.Errorf("%s: %w", c.doing(), err)
	}
	state, _ := exit.Sys().(syscall.WaitStatus)
	if status, exited := exitStatus(state); exited {
		return nil, c.failed(status, p.stderr.bytes())
	}
	return nil, fault.Internal.Errorf("%s was ended by somebody else: %w", c.doing(), err)
}

// tail keeps the last of what is written to it.
type tail struct{ kept []byte }

const tailBytes = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - tailBytes; over > 0 {
		t.kept = t.kept[over:]
	}
	return len(p), nil
}

func (t *tail) bytes() []byte { return t.kept }
