package containers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/purser-csi/purser/internal/cluster/kubelet"
)

// Name is the name of the image.
const Name = "purser.local/app:1"

// The program does what its arguments say, one after the other:
//
//	write FILE   writes a line to a file or a device
//	read FILE    fails unless the line is at its beginning
//	wait         waits until it is asked to end
const source = `package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const line = "written by a container\n"

func main() {
	for args := os.Args[1:]; len(args) > 0; args = args[1:] {
		if args[0] == "wait" {
			wait()
			continue
		}
		if err := do(args[0], args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		args = args[1:]
	}
}

func do(what, path string) error {
	flags := os.O_RDWR
	if info, err := os.Stat(path); err != nil || info.Mode().IsRegular() {
		flags |= os.O_CREATE
	}
	if what == "read" {
		flags = os.O_RDONLY
	}
	file, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	if what == "write" {
		if _, err := file.WriteString(line); err != nil {
			return err
		}
		return file.Sync()
	}
	got := make([]byte, len(line))
	if _, err := io.ReadFull(file, got); err != nil || string(got) != line {
		return fmt.Errorf("%s: %q, %v", path, got, err)
	}
	return nil
}

func wait() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
}
`

// Image builds the program in a folder, and returns its image as an archive. By default its
// containers wait.
func Image(dir string) ([]byte, error) {
	folder := filepath.Join(dir, "app")
	err := errors.Join(
		os.MkdirAll(folder, 0o755),
		os.WriteFile(filepath.Join(folder, "main.go"), []byte(source), 0o600),
		os.WriteFile(filepath.Join(folder, "go.mod"), []byte("module app\n\ngo 1.26\n"), 0o600),
	)
	if err != nil {
		return nil, err
	}
	build := exec.Command("go", "build", "-o", "app", ".") //nolint:noctx // it ends by itself
	build.Dir, build.Env = folder, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the program of the image: %w: %s", err, out)
	}
	program, err := os.ReadFile(filepath.Join(folder, "app"))
	if err != nil {
		return nil, err
	}
	return kubelet.Image(Name, program, "wait")
}
