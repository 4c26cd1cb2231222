package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// columns and rows are the size of the terminal.
const (
	columns = 100
	rows    = 40
)

// terminal shows what its programs print, one after the other.
type terminal struct {
	bin   string
	began time.Time

	mu     sync.Mutex
	moved  time.Duration // by which the clock of the picture is ahead: pauses in which no program waited
	screen screen
}

// pause lets a reader read; the programs do not wait for it.
func (t *terminal) pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moved += time.Second
}

func (t *terminal) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.screen.text()
}

func (t *terminal) lines() []line {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.screen.whole()
}

// Write shows what a program prints.
func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.screen.write(time.Since(t.began)+t.moved, string(p))
	return len(p), nil
}

// program runs in the terminal.
type program struct {
	command *exec.Cmd
	copied  chan struct{} // closed when all of its output is shown
	text    string
}

// start prints a prompt with the command and runs it. The command has no shell.
func (t *terminal) start(ctx context.Context, text string) (*program, error) {
	_, _ = t.Write([]byte("\x1b[1m$ " + text + "\x1b[0m\r\n"))
	master, slave, err := openTerminal()
	if err != nil {
		return nil, err
	}
	words := strings.Fields(text)
	p := &program{copied: make(chan struct{}), text: text}
	p.command = exec.CommandContext(ctx, filepath.Join(t.bin, words[0]), words[1:]...)
	p.command.Dir = home
	p.command.Env = append(os.Environ(), "TERM=xterm-256color", "NO_COLOR=", "KUBEBUILDER_ASSETS="+t.bin,
		"KUBECONFIG="+filepath.Join(home, ".purser", "kubeconfig"))
	p.command.Stdin, p.command.Stdout, p.command.Stderr = slave, slave, slave
	p.command.Cancel = func() error { return p.command.Process.Signal(os.Interrupt) }
	p.command.WaitDelay = patience
	p.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.command.Start(); err != nil {
		return nil, errors.Join(err, master.Close(), slave.Close())
	}
	_ = slave.Close() // the program has it
	go func() {
		defer close(p.copied)
		_, _ = io.Copy(t, master) // the end is EIO: the program has closed its side
		_ = master.Close()
	}()
	return p, nil
}

// await returns when the program has ended, or when the condition holds.
func (p *program) await(ctx context.Context, holds func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	bound, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		select {
		case <-p.copied:
			// explain says "stuck" with 1.
			if err := p.command.Wait(); err != nil && p.command.ProcessState.ExitCode() != 1 {
				return fmt.Errorf("%s: %w", p.text, err)
			}
			if holds != nil {
				return fmt.Errorf("%s has ended", p.text)
			}
			return nil
		case <-bound.Done():
			return fmt.Errorf("%s: %w", p.text, bound.Err())
		case <-tick.C:
			if holds != nil && holds() {
				return nil
			}
		}
	}
}

// stop sends Ctrl-C and waits for the end.
func (p *program) stop() error {
	if err := p.command.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	<-p.copied
	return p.command.Wait()
}

// openTerminal returns both sides of a new pseudo terminal.
func openTerminal() (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	return master, slave, nil
}
