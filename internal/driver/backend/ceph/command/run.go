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
	"syscall"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/timelimit"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// Config is what a Runner needs. The zero value is ready for use.
type Config struct {
	// Patience bounds a call that names no bound; a minute when zero.
	Patience time.Duration
	// Grace is how long a killed process may take to end;
	// timelimit.DefaultGrace when zero.
	Grace time.Duration
	// AtOnce is how many tools run at a time; 16 when zero. Each costs a
	// processor some 30 ms.
	AtOnce int
	// LookPath finds a program; exec.LookPath when nil.
	LookPath func(string) (string, error)
	// Environment is added to that of every tool.
	Environment []string
	// Kill ends a process and what it started; by SIGKILL when nil.
	Kill func(pid int) error
}

// Runner runs tools.
type Runner struct {
	config Config
	slots  chan struct{}
	// keeper stops waiting for processes that do not end even by SIGKILL.
	keeper *timelimit.Keeper
}

// NewRunner has the defaults.
func NewRunner(c Config) *Runner {
	if c.Patience == 0 {
		c.Patience = time.Minute
	}
	if c.AtOnce == 0 {
		c.AtOnce = 16
	}
	if c.LookPath == nil {
		c.LookPath = exec.LookPath
	}
	if c.Kill == nil {
		c.Kill = func(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }
	}
	return &Runner{config: c, slots: make(chan struct{}, c.AtOnce), keeper: timelimit.NewKeeper(c.Grace)}
}

// Present says what is missing to run a program; nil when nothing is.
func (r *Runner) Present(p Program) error {
	_, err := r.find(p)
	return err
}

func (r *Runner) find(p Program) (string, error) {
	path, err := r.config.LookPath(string(p))
	if err != nil {
		return "", fault.Unready.Errorf(
			"program %s is not installed: %w; install the package %s where the driver runs",
			p,
			err,
			packaged[p],
		)
	}
	return path, nil
}

// Run runs a tool and gives what it printed.
func (r *Runner) Run(ctx context.Context, c Call) (stdout []byte, err error) {
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
	work := timelimit.Work{Target: c.Target, Doing: c.doing(), Bound: c.Patience}
	return timelimit.Do(ctx, r.keeper, work, func(bounded context.Context) ([]byte, error) {
		return r.runOnce(ctx, bounded, c, path)
	})
}

// runOnce ends when the process has ended.
func (r *Runner) runOnce(caller, bounded context.Context, c Call, path string) ([]byte, error) {
	if bounded.Err() != nil {
		return nil, c.ended(caller, nil)
	}
	p, err := c.prepare()
	if err != nil {
		return nil, fault.Internal.Errorf("%s: %w", c.doing(), err)
	}
	defer func() { _ = p.file.Close() }() // a nil file says that it is none
	child := &process{path: path, prepared: p, environment: r.config.Environment}
	started, done := make(chan error, 1), make(chan ending, 1)
	go child.run(started, done)
	if err := <-started; err != nil {
		// Without its errno: a program that is not there has not found that
		// a volume is not there.
		return nil, fault.Internal.Errorf("start %s: %v", c.Program, err)
	}
	select {
	case end := <-done:
		return child.outcome(c, end.err)
	case <-bounded.Done():
	}
	_ = r.config.Kill(child.command.Process.Pid)
	if end := <-done; end.err == nil { // it was faster than the signal
		return child.stdout.Bytes(), nil
	}
	return nil, c.ended(caller, child.stderr.bytes())
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

// run starts the child and waits for it. The kernel kills the child when the thread that started it
// ends, so the thread is locked until then. When this driver is killed, its tools end and do not
// run in parallel with those of the next driver. A daemon that a tool starts is not a child of this
// process and survives.
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
	return nil, fault.Internal.Errorf("%s was ended by another process: %w", c.doing(), err)
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
