package command_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/test/ceph/faketool"
)

func TestMain(m *testing.M) {
	status := faketool.Main(m)
	if status == 0 && os.Getenv("PURSER_FAKE_TOOL") == "" {
		if err := goleak.Find(); err != nil {
			panic(err)
		}
	}
	os.Exit(status)
}

const key = "AQBqsgFrhw8fERAA/N7Hmvz+OF9eKTlWFF0zeQ=="

var access = command.Access{Cluster: "ceph", Conf: "/etc/ceph/ceph.conf", User: "csi", Key: command.NewKey(key)}

func runner(tools *faketool.Tools, change func(*command.Config)) *command.Runner {
	config := command.Config{LookPath: tools.LookPath, Environment: tools.Environment()}
	if change != nil {
		change(&config)
	}
	return command.NewRunner(config)
}

func TestHowToolsAreCalled(t *testing.T) {
	const ring = "[client.csi]\n\tkey = " + key + "\n"
	const fd = "--keyring=/proc/self/fd/3"
	tests := map[command.Program]struct {
		want    []string
		keyring string
		args    string
	}{
		command.RBD:     {[]string{"info", "rbd/a b", "--conf=/etc/ceph/ceph.conf", "--id=csi", fd, "--client_mount_timeout=15"}, ring, ""},
		command.Ceph:    {[]string{"--conf=/etc/ceph/ceph.conf", "--id=csi", fd, "--connect-timeout=15", "info", "rbd/a b"}, ring, ""},
		command.RBDFuse: {[]string{"-c", "/etc/ceph/ceph.conf", "info", "rbd/a b"}, ring, "CEPH_ARGS=--id=csi " + fd},
		// The kernel's client wants the key alone.
		command.MountCeph: {[]string{"info", "rbd/a b"}, key, ""},
	}
	for program, test := range tests {
		tools := faketool.New(t, faketool.Step{Begins: string(program), Stdout: "out", Stderr: "noise"})
		out, err := runner(tools, nil).Run(t.Context(), command.Call{Program: program, Access: access, Arguments: []string{"info", "rbd/a b"}})
		if err != nil || string(out) != "out" {
			t.Fatalf("%s: %q, %v", program, out, err)
		}
		call := tools.Calls()[0]
		if diff := cmp.Diff(test.want, call.Arguments); diff != "" {
			t.Errorf("%s: %s", program, diff)
		}
		if call.Keyring != test.keyring {
			t.Errorf("%s: was given %q", program, call.Keyring)
		}
		environment := strings.Join(call.Environment, "\n")
		if !strings.Contains(environment, test.args) || strings.Contains(environment, "HOME=") {
			t.Errorf("%s: environment %s", program, environment)
		}
		if strings.Contains(strings.Join(call.Arguments, " ")+environment, key) {
			t.Errorf("%s: the key can be seen by every user of the machine", program)
		}
	}
}

func TestWhatAStatusMeans(t *testing.T) {
	tests := []struct {
		status int
		stderr string
		kind   fault.Kind
		errno  unix.Errno
	}{
		{2, "rbd: error opening image x: (2) No such file or directory", fault.NotFound, unix.ENOENT},
		{17, "rbd: create error: (17) File exists", fault.Incompatible, unix.EEXIST},
		{16, "image has watchers", fault.InUse, unix.EBUSY},
		{39, "image has snapshots", fault.InUse, unix.ENOTEMPTY},
		{28, "no space", fault.Exhausted, unix.ENOSPC},
		{122, "quota", fault.Exhausted, unix.EDQUOT},
		{11, "subvolume 'c' is not ready", fault.Busy, unix.EAGAIN},
		{13, "rbd: couldn't connect to the cluster!", fault.Unidentified, unix.EACCES},
		{13, "Error EACCES: access denied: does your client key have mgr caps?", fault.Forbidden, unix.EACCES},
		{110, "authenticate timed out after 15", fault.Away, unix.ETIMEDOUT},
		{107, "rbd: error opening image", fault.Away, unix.ENOTCONN},
		{108, "rbd: error opening image", fault.Away, unix.ESHUTDOWN},
		{22, "rbd: shrinking an image is only allowed with --allow-shrink", fault.Internal, unix.EINVAL},
		// 1 is also how python and early failures end.
		{1, "(1) Operation not permitted", fault.Forbidden, unix.EPERM},
		{1, "timed out", fault.Away, unix.ETIMEDOUT},
		{1, "global_init: unable to open config file", fault.Internal, unix.EIO},
	}
	for _, test := range tests {
		tools := faketool.New(t, faketool.Step{Begins: "rbd", Status: test.status, Stderr: test.stderr + "\n"})
		_, err := runner(tools, nil).Run(t.Context(), command.Call{Program: command.RBD, Access: access, Arguments: []string{"info", "rbd/x"}})
		if !test.kind.Is(err) || !command.Is(err, test.errno) || !errors.Is(err, test.errno) {
			t.Errorf("status %d %q: kind %d, %v", test.status, test.stderr, fault.KindOf(err), err)
		}
		if err == nil || !strings.Contains(err.Error(), test.stderr) || !strings.Contains(err.Error(), "rbd info rbd/x") {
			t.Errorf("status %d: the error does not say what was tried and what was said: %v", test.status, err)
		}
	}
}

func TestNoErrorShowsTheKey(t *testing.T) {
	tools := faketool.New(t, faketool.Step{Begins: "rbd", Status: 22, Stderr: "auth: failed to decode key '{keyring}'\n"})
	_, err := runner(tools, nil).Run(t.Context(), command.Call{Program: command.RBD, Access: access, Arguments: []string{"ls"}})
	if err == nil || strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "***") {
		t.Errorf("Run: %v, want the message without the key", err)
	}
	for _, text := range []string{access.Key.String(), access.Key.GoString()} {
		if strings.Contains(text, key) {
			t.Errorf("printed: %s", text)
		}
	}
}

func TestNoiseIsLeftOut(t *testing.T) {
	const noise = "2026-11-21T14:58:13.361+0000 7fb1a729c380 -1 librbd: rbd image a exists\n\n" +
		"2026-11-21T14:58:13.362+0000 7fb1a729c380 -1 librbd: rbd image a exists\n\nResizing image: 0% complete...failed.\n"
	tools := faketool.New(t, faketool.Step{Begins: "rbd", Status: 17, Stderr: noise})
	_, err := runner(tools, nil).Run(t.Context(), command.Call{Program: command.RBD, Access: access, Arguments: []string{"create"}})
	if err == nil || !strings.Contains(err.Error(), "rbd create: librbd: rbd image a exists; failed. (file exists)") {
		t.Errorf("got %v", err)
	}
}

func TestAHangingToolIsKilled(t *testing.T) {
	tools := faketool.New(t, faketool.Step{Begins: "rbd", Hangs: true, Stderr: "waiting for the cluster\n"})
	run := runner(tools, func(c *command.Config) { c.Patience = 300 * time.Millisecond })
	_, err := run.Run(t.Context(), command.Call{Program: command.RBD, Access: access, Arguments: []string{"ls"}})
	if !fault.Away.Is(err) || !strings.Contains(err.Error(), "did not end within 300ms") {
		t.Errorf("patience: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = runner(tools, nil).Run(ctx, command.Call{Program: command.RBD, Access: access, Arguments: []string{"ls"}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller's bound: %v", err)
	}
	for _, call := range tools.Calls() {
		if err := unix.Kill(call.Pid, 0); !errors.Is(err, unix.ESRCH) {
			t.Errorf("process %d: %v, want it gone", call.Pid, err)
		}
	}
}

// A process in the kernel's own wait does not end by any signal.
func TestAToolThatSurvivesKillReleasesItsCaller(t *testing.T) {
	tools := faketool.New(t, faketool.Step{Begins: "rbd device map", Hangs: true}, faketool.Step{Begins: "rbd"})
	run := runner(tools, func(c *command.Config) {
		c.Patience, c.Grace = 2*time.Second, time.Millisecond // a program that ends well takes a part of this under the race detector
		c.Kill = func(int) error { return nil }
	})
	mapping := command.Call{Program: command.RBD, Access: access, Arguments: []string{"device", "map"}, Target: "rbd/a"}
	if _, err := run.Run(t.Context(), mapping); !fault.Away.Is(err) || !strings.Contains(err.Error(), "rbd device map does not end") {
		t.Errorf("Run: %v", err)
	}
	if _, err := run.Run(t.Context(), mapping); !fault.Busy.Is(err) || !strings.Contains(err.Error(), "has been hanging since") {
		t.Errorf("the same target: %v", err)
	}
	if _, err := run.Run(t.Context(), command.Call{Program: command.RBD, Access: access, Arguments: []string{"ls"}}); err != nil {
		t.Errorf("another call: %v", err)
	}
	if err := unix.Kill(tools.Calls()[0].Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for { // until its end was noticed
		if _, err := run.Run(t.Context(), mapping); !fault.Busy.Is(err) {
			break
		}
	}
	for _, call := range tools.Calls() {
		_ = unix.Kill(call.Pid, unix.SIGKILL)
	}
}

func TestACallThatIsOverDoesNotBegin(t *testing.T) {
	tools := faketool.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := runner(tools, nil).Run(ctx, command.Call{Program: command.RBD, Access: access, Arguments: []string{"ls"}})
	if !errors.Is(err, context.Canceled) || len(tools.Calls()) > 0 {
		t.Errorf("Run: %v, calls %v", err, tools.Calls())
	}
}

func TestOnlySoManyAtOnce(t *testing.T) {
	tools := faketool.New(t, faketool.Step{Begins: "rbd", Hangs: true})
	run := runner(tools, func(c *command.Config) { c.AtOnce = 1 })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := make(chan error, 1)
	go func() {
		_, err := run.Run(ctx, command.Call{Program: command.RBD, Access: access})
		first <- err
	}()
	for len(tools.Calls()) == 0 { // until it holds the only place
		if ctx.Err() != nil {
			t.Fatal("the first call never began")
		}
	}
	late, cancelLate := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancelLate()
	_, err := run.Run(late, command.Call{Program: command.RBD, Access: access})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 others run") {
		t.Errorf("the second call: %v", err)
	}
	cancel()
	<-first
	if calls := tools.Calls(); len(calls) != 1 {
		t.Errorf("%d calls", len(calls))
	}
}

func TestAMissingProgramSaysWhatToInstall(t *testing.T) {
	tools := faketool.New(t)
	tools.Remove("rbd-nbd")
	run := runner(tools, nil)
	_, err := run.Run(t.Context(), command.Call{Program: command.RBDNBD, Access: access})
	if !fault.Unready.Is(err) || !strings.Contains(err.Error(), "install the package rbd-nbd") {
		t.Errorf("Run: %v", err)
	}
	if run.Present(command.RBD) != nil || run.Present(command.RBDNBD) == nil {
		t.Error("Present is wrong")
	}
}

func TestNothingIsLeftOnDisk(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	tools := faketool.New(t, faketool.Step{Begins: "rbd"})
	if _, err := runner(tools, nil).Run(t.Context(), command.Call{Program: command.RBD, Access: access}); err != nil {
		t.Fatal(err)
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "*")); len(found) > 0 {
		t.Errorf("left: %v", found)
	}
}
