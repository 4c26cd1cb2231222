package filesystem

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/purser-csi/purser/internal/driver/fault"
)

const (
	// maxRunTime bounds a program that hangs. One that checks a large filesystem
	// takes its time.
	maxRunTime = time.Hour
	// keptOutput is how much of what a program says goes into an error, at
	// each end: some say the cause first and then how they want to be used.
	keptOutput = 300
)

// folders are searched after PATH, which often has no sbin.
var folders = []string{"/usr/sbin", "/sbin", "/usr/bin", "/bin"}

func lookUp(program, packaged string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	for _, folder := range folders {
		path := filepath.Join(folder, program)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fault.Unready.Errorf("%s is not installed; install %s where the driver runs", program, packaged)
}

// exitedWith gives the exit code of a program that ended by itself.
func exitedWith(err error) (code int, exited bool) {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return exit.ExitCode(), true
	}
	return 0, false
}

// run starts a program and waits for it. The program ends with us: an mkfs
// that outlived a killed driver would write while the next one stages. The
// kernel ties that to the thread which starts the program, so the thread stays
// as long.
func run(ctx context.Context, packaged, program string, arguments ...string) error {
	_, err := runAndRead(ctx, packaged, program, arguments...)
	return err
}

// runAndRead also returns the output of the program.
func runAndRead(ctx context.Context, packaged, program string, arguments ...string) (string, error) {
	path, err := lookUp(program, packaged)
	if err != nil {
		return "", err
	}
	bounded, cancel := context.WithTimeout(ctx, maxRunTime)
	defer cancel()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command := exec.CommandContext(bounded, path, arguments...)
	command.Env = []string{"LC_ALL=C", "PATH=" + strings.Join(folders, ":")}
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// A child of the program could keep the pipe open after it was killed.
	command.WaitDelay = 5 * time.Second
	output, err := command.CombinedOutput()
	if err == nil {
		return string(output), nil
	}
	if cause := bounded.Err(); cause != nil {
		err = cause
	}
	return string(output), &failure{program, err, output}
}

// failure is the error of a program.
type failure struct {
	program string
	err     error
	output  []byte
}

func (f *failure) Error() string {
	return fmt.Sprintf("%s: %v: %s", f.program, f.err, shorten(f.output))
}

func (f *failure) Unwrap() error { return f.err }

// said searches the output of a program for words.
func said(err error, words string) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && strings.Contains(string(f.output), words)
}

func shorten(output []byte) string {
	text := strings.Join(strings.Fields(string(output)), " ")
	if len(text) <= 2*keptOutput {
		return text
	}
	return text[:keptOutput] + " ... " + text[len(text)-keptOutput:]
}
