package stage

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Command is a program to run beside the tests.
type Command struct {
	Path       string
	Args       []string
	Env        []string            // in addition to ours
	Output     io.Writer           // gets both standard output and standard error
	Credential *syscall.Credential // of another user; nil for ourselves
}

// Program is a child process that dies with this process, even after SIGKILL.
type Program struct {
	command *exec.Cmd
	ended   chan struct{}
	failed  error // set before ended is closed
}

// Launch starts a program.
func Launch(c Command) (*Program, error) {
	p := &Program{command: exec.Command(c.Path, c.Args...), ended: make(chan struct{})}
	p.command.Env = append(os.Environ(), c.Env...)
	p.command.Stdout, p.command.Stderr = c.Output, c.Output
	// In a process group of its own: this process gets Ctrl-C and forwards it.
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true, Credential: c.Credential}
	started := make(chan error)
	go p.attend(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	return p, nil
}

// attend starts the child and waits for it on a thread of its own. The kernel sends the
// parent-death signal when the thread that started the child ends, not when the process does.
func (p *Program) attend(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.command.Start()
	started <- err
	if err == nil {
		p.failed = p.command.Wait()
	}
	close(p.ended)
}

// Pid is the process id.
func (p *Program) Pid() int { return p.command.Process.Pid }

// Ended is closed when the program is gone.
func (p *Program) Ended() <-chan struct{} { return p.ended }

// ExitCode is that of a program that has ended; -1 after a signal.
func (p *Program) ExitCode() int { return p.command.ProcessState.ExitCode() }

// Kill ends the program as a power cut would, and returns when it is gone.
func (p *Program) Kill() {
	_ = p.command.Process.Kill() // fails only when there is nothing left to kill
	<-p.ended
}

// stopTime bounds an orderly end. It is longer than what `up` allows itself.
const stopTime = 90 * time.Second

// Stop sends Ctrl-C. It returns the error with which the program ended.
func (p *Program) Stop() error {
	_ = p.command.Process.Signal(os.Interrupt) // likewise
	select {
	case <-p.ended:
		return p.failed
	case <-time.After(stopTime):
		p.Kill()
		return fmt.Errorf("%s did not end within %s of Ctrl-C and was killed", p.command.Path, stopTime)
	}
}
