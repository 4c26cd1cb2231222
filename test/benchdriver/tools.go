package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// present says which program is missing.
func present(program string) error {
	_, err := exec.LookPath(program)
	return err
}

// command runs a program, which ends with us, and gives the first line that it prints.
func command(ctx context.Context, program string, arguments ...string) (string, error) {
	output, err := commandIn(ctx, os.Environ(), program, arguments...)
	return firstLine(output), err
}

func commandIn(ctx context.Context, environment []string, program string, arguments ...string) (string, error) {
	c := exec.CommandContext(ctx, program, arguments...)
	c.Env = environment
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(arguments, " "), err, output)
	}
	return string(output), nil
}

func firstLine(output string) string {
	line, _, _ := strings.Cut(output, "\n")
	return line
}

// commands runs one program after the other.
func commands(ctx context.Context, all ...[]string) error {
	for _, c := range all {
		if _, err := command(ctx, c[0], c[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// directoryTools are mkdir and mount.
type directoryTools struct{ dir string }

func (d directoryTools) up(ctx context.Context, name string) error {
	source, target := filepath.Join(d.dir, name), filepath.Join(d.dir, "at-"+name)
	return commands(ctx, []string{"mkdir", source, target}, []string{"mount", "--bind", source, target})
}

func (d directoryTools) down(ctx context.Context, name string) error {
	source, target := filepath.Join(d.dir, name), filepath.Join(d.dir, "at-"+name)
	return commands(ctx, []string{"umount", target}, []string{"rm", "-r", source, target})
}

// makers are how a filesystem is made in the least time.
var makers = map[string][]string{
	"ext4":  {"mkfs.ext4", "-q", "-F", "-m0", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"},
	"xfs":   {"mkfs.xfs", "-q", "-K", "-f"},
	"btrfs": {"mkfs.btrfs", "-q", "-K", "-f"},
}

// loopTools are truncate, losetup, mkfs and mount.
type loopTools struct{ dir, fs string }

func (l loopTools) image(name string) string { return filepath.Join(l.dir, name+".img") }
func (l loopTools) at(name string) string    { return filepath.Join(l.dir, "at-"+name) }

func (l loopTools) up(ctx context.Context, name string) error {
	if err := commands(ctx, []string{"truncate", "-s", strconv.Itoa(volumeBytes), l.image(name)},
		[]string{"mkdir", l.at(name)}); err != nil {
		return err
	}
	device, err := command(ctx, "losetup", "--find", "--show", l.image(name))
	if err != nil || l.fs == "" {
		return errors.Join(err, os.WriteFile(l.at(name)+"/device", []byte(device), 0o600))
	}
	options := "defaults"
	if l.fs == "xfs" {
		options = "nouuid"
	}
	return commands(ctx, append(makers[l.fs], device), []string{"mount", "-t", l.fs, "-o", options, device, l.at(name)})
}

func (l loopTools) down(ctx context.Context, name string) error {
	device, err := l.device(ctx, name)
	if err != nil {
		return err
	}
	if l.fs != "" {
		if err := commands(ctx, []string{"umount", l.at(name)}); err != nil {
			return err
		}
	}
	return commands(ctx, []string{"losetup", "--detach", device}, []string{"rm", "-r", l.image(name), l.at(name)})
}

func (l loopTools) device(ctx context.Context, name string) (string, error) {
	if l.fs == "" {
		device, err := os.ReadFile(l.at(name) + "/device")
		return string(device), err
	}
	return command(ctx, "findmnt", "--noheadings", "--output", "SOURCE", l.at(name))
}
