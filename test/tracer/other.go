//go:build !(linux && amd64)

package tracer

import (
	"errors"
	"os/exec"
	"syscall"
)

var errPlatform = errors.New("the tracer knows the system calls of Linux on amd64 alone")

// Call is a system call that changes something.
type Call struct {
	Name, Path string
	Arguments  [6]uint64
}

func (c Call) String() string { return c.Name + " " + c.Path }

// Tracer traces no child.
type Tracer struct{}

// Usable returns why this process cannot trace.
func Usable() error { return errPlatform }

// Join fails.
func Join() error { return errPlatform }

// Start fails.
func Start(*exec.Cmd, int, func(Call)) (*Tracer, error) { return nil, errPlatform }

// StartFull fails.
func StartFull(*exec.Cmd, int, syscall.Errno) (*Tracer, error) { return nil, errPlatform }

// Relieve does nothing.
func (*Tracer) Relieve() {}

// Wait fails.
func (*Tracer) Wait() (int, string, error) { return 0, "", errPlatform }
