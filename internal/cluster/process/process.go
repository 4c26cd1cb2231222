package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Config says what to run and where its output goes.
type Config struct {
	Name string   // how errors call it
	Path string   // the program's absolute path
	Args []string // without the program's name
	Log  string   // file for standard output and error; the previous one is kept as Log.1

	// Inherit are open files that the child holds for as long as it lives, such as the lock on its
	// data.
	Inherit []*os.File
}

// Process is a child that was started. Its zero value is not usable: call Start.
type Process struct {
	cfg  Config
	cmd  *exec.Cmd
	done chan struct{}
	exit *Exit // set before done is closed
}

// Start runs the program and returns as soon as it exists.
func Start(cfg Config) (*Process, error) {
	log, err := openLog(cfg.Log)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", cfg.Name, err)
	}
	defer log.Close()

	p := &Process{cfg: cfg, cmd: command(cfg, log), done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", cfg.Name, err)
	}
	return p, nil
}

func command(cfg Config, log *os.File) *exec.Cmd {
	cmd := exec.Command(cfg.Path, cfg.Args...) //nolint:noctx // Stop ends it; a context would skip SIGTERM
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = cfg.Inherit
	cmd.SysProcAttr = &syscall.SysProcAttr{
		// Even SIGKILL of this process leaves nothing behind: the kernel kills the child.
		Pdeathsig: syscall.SIGKILL,
		// Ctrl-C signals the terminal's whole foreground group; the child is not to be in it.
		Setpgid: true,
	}
	return cmd
}

// run starts the child and stays with it until it has been reaped.
//
// The kernel sends the parent-death signal when the *thread* that forked ends, not when the process
// does, and the Go runtime ends threads when it pleases. So this goroutine keeps one thread to
// itself for the whole life of the child.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	// What Wait returns is in ProcessState too: output goes to a file, so there is nothing to copy
	// that could fail.
	_ = p.cmd.Wait()
	p.exit = &Exit{Name: p.cfg.Name, State: p.cmd.ProcessState.String(), Log: p.cfg.Log}
	p.exit.Tail, p.exit.tailErr = Tail(p.cfg.Log, tailLines)
	close(p.done)
}

// PID is the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Name is how the child was called in Config.
func (p *Process) Name() string { return p.cfg.Name }

// Done is closed when the child has ended and has been reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns an error that describes how the child ended, also after a regular end; nil while it
// runs.
func (p *Process) Exit() *Exit {
	select {
	case <-p.done:
		return p.exit
	default:
		return nil
	}
}

// Stop asks the child to end, kills it once ctx is done, and returns when it is gone. A child that
// had to be killed is an error; one that had already ended is not.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return fmt.Errorf("%s did not stop in time and was killed: %w", p.cfg.Name, context.Cause(ctx))
}

func (p *Process) signal(sig syscall.Signal) error {
	err := p.cmd.Process.Signal(sig)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %s to %s: %w", sig, p.cfg.Name, err)
	}
	return nil
}
