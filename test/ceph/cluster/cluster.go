package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// programs are what a cluster consists of, and its clients.
var programs = []string{
	"ceph-mon", "ceph-mgr", "ceph-osd", "ceph-mds", "ceph-authtool", "monmaptool", "ceph", "rbd", "ceph-fuse",
}

// Packages are those of Debian that have the programs, and those of clients.
var Packages = []string{
	"ceph-mon", "ceph-mgr", "ceph-mgr-modules-core", "ceph-osd", "ceph-mds", "ceph-common",
	"ceph-fuse", "fuse3",
}

// Missing says which programs this machine lacks; empty when none.
func Missing() string {
	var missing []string
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf(
		"no Ceph on this machine (%s missing): run make test-ceph as root, or install %s",
		strings.Join(missing, ", "),
		strings.Join(Packages, " "),
	)
}

// NotAsked says why a test that needs a Ceph is not to run; empty when it is.
// The tests take minutes on a Ceph, so its programs alone do not ask for them.
func NotAsked() string {
	switch missing := Missing(); {
	case os.Getenv("CEPH") == "":
		return "takes minutes on a Ceph that it starts: run make test-ceph as root"
	case missing != "":
		return missing
	case os.Geteuid() != 0:
		return "needs root: for loop devices and mounts"
	}
	return ""
}

// Cluster is a running Ceph.
type Cluster struct {
	dir, address string
	daemons      []*daemon
	dismiss      func() error
}

// patience bounds every single command. A machine that has other things to do
// takes a minute to load the modules of the manager.
const patience = 3 * time.Minute

// Start makes and starts a cluster in an empty folder.
func Start(ctx context.Context, dir string) (*Cluster, error) {
	first, second, err := freePorts()
	if err != nil {
		return nil, err
	}
	dismiss, err := startJanitor(dir)
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, dismiss: dismiss, address: fmt.Sprintf("[v2:127.0.0.1:%d,v1:127.0.0.1:%d]", first, second)}
	if err := c.start(ctx); err != nil {
		err = fmt.Errorf("start a Ceph cluster: %w\n%s", err, c.logs())
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.dir}, elements...)...)
}

func (c *Cluster) start(ctx context.Context) error {
	fsid, osd := newUUID(), newUUID()
	for _, folder := range []string{"mon", "mgr", "mds", "osd", "run", "log"} {
		if err := os.MkdirAll(c.path(folder), 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(c.path("ceph.conf"), []byte(conf(c.dir, fsid, c.address)), 0o600); err != nil {
		return err
	}
	if err := c.makeKeys(ctx); err != nil {
		return err
	}
	steps := [][]string{
		{
			"monmaptool",
			"--create",
			"--clobber",
			"--fsid",
			fsid,
			"--addv",
			"a",
			c.address,
			"--set-min-mon-release",
			"pacific",
			c.path("monmap"),
		},
		{"ceph-mon", "--mkfs", "-i", "a", "--monmap", c.path("monmap"), "--keyring", c.path("all.keyring")},
		{"", "ceph-mon", "-i", "a"},
		{"", "ceph-mgr", "-i", "x"},
		{"ceph", "osd", "new", osd, "0"},
		{"ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd},
		{"", "ceph-osd", "-i", "0"},
	}
	for _, step := range steps {
		if err := c.step(ctx, step); err != nil {
			return err
		}
	}
	return c.until(ctx, `"num_up_osds":1`, "ceph", "osd", "stat", "-f", "json")
}

// step runs a command, or starts a daemon.
func (c *Cluster) step(ctx context.Context, step []string) error {
	if step[0] == "" {
		return c.startDaemon(step[1:])
	}
	_, err := c.Run(ctx, step...)
	return err
}

// makeKeys gives every daemon and the administrator a key.
func (c *Cluster) makeKeys(ctx context.Context) error {
	all := "allow *"
	capabilities := []struct {
		name                string
		mon, mgr, osd, mdss string
	}{
		{"mon.", all, "", "", ""},
		{"client.admin", all, all, all, all},
		{"mgr.x", "allow profile mgr", "", all, all},
		{"osd.0", "allow profile osd", "allow profile osd", all, ""},
		{"mds.a", "allow profile mds", "allow profile mds", all, all},
	}
	for i, who := range capabilities {
		ring := c.path(who.name + ".keyring")
		arguments := []string{"ceph-authtool", ring, "--create-keyring", "--gen-key", "-n", who.name}
		for service, capability := range map[string]string{"mon": who.mon, "mgr": who.mgr, "osd": who.osd, "mds": who.mdss} {
			if capability != "" {
				arguments = append(arguments, "--cap", service, capability)
			}
		}
		if _, err := c.Run(ctx, arguments...); err != nil {
			return err
		}
		into := []string{"ceph-authtool", c.path("all.keyring"), "--import-keyring", ring}
		if i == 0 {
			into = append(into, "--create-keyring")
		}
		if _, err := c.Run(ctx, into...); err != nil {
			return err
		}
	}
	return nil
}

// Run runs a command as the administrator.
func (c *Cluster) Run(ctx context.Context, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	command := exec.CommandContext(ctx, arguments[0], arguments[1:]...)
	command.Env = append(os.Environ(), "CEPH_CONF="+c.path("ceph.conf"), "TZ=UTC")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// until repeats a command until its answer has a text.
func (c *Cluster) until(ctx context.Context, wanted string, arguments ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		out, err := c.Run(ctx, arguments...)
		if err == nil && strings.Contains(out, wanted) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s never said %s: %s, %w", strings.Join(arguments, " "), wanted, out, errors.Join(err, ctx.Err()))
		}
	}
}

// Address is that of the monitor.
func (c *Cluster) Address() string { return c.address }

// AddPool makes a pool for images.
func (c *Cluster) AddPool(ctx context.Context, name string) error {
	if _, err := c.Run(ctx, "ceph", "osd", "pool", "create", name, "8"); err != nil {
		return err
	}
	_, err := c.Run(ctx, "rbd", "pool", "init", name)
	return err
}

// AddFilesystem makes a CephFS.
func (c *Cluster) AddFilesystem(ctx context.Context, name string) error {
	for _, step := range [][]string{
		{"", "ceph-mds", "-i", "a"},
		{"ceph", "osd", "pool", "create", name + ".meta", "8"},
		{"ceph", "osd", "pool", "create", name + ".data", "8"},
		{"ceph", "fs", "new", name, name + ".meta", name + ".data"},
		// The least that there is: then the session of a killed client ends.
		{"ceph", "fs", "set", name, "session_timeout", "30"},
	} {
		if err := c.step(ctx, step); err != nil {
			return err
		}
	}
	if err := c.until(ctx, "up:active", "ceph", "mds", "stat", "-f", "json"); err != nil {
		return err
	}
	// The manager's commands are known some time after the manager is.
	return c.until(ctx, name, "ceph", "fs", "volume", "ls", "-f", "json")
}

// AddUser makes a user who may use images and subvolumes and do nothing else,
// and gives the key.
func (c *Cluster) AddUser(ctx context.Context, name string) (key string, err error) {
	return c.Run(ctx, "ceph", "auth", "get-or-create-key", "client."+name,
		"mon", "profile rbd, allow r", "mgr", "allow rw", "osd", "profile rbd, allow rw tag cephfs *=*", "mds", "allow rw")
}

// Stop sweeps up what still uses the cluster, which is nothing after a test
// that went well, and ends the daemons. What they knew is lost: it was in
// memory.
func (c *Cluster) Stop() error {
	failures := []error{c.Resume(), c.dismiss()}
	for _, d := range c.daemons {
		failures = append(failures, d.stop())
	}
	c.daemons = nil
	return errors.Join(failures...)
}

// Pause lets the cluster answer no client, as behind a network that drops
// everything.
func (c *Cluster) Pause() error { return c.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (c *Cluster) Resume() error { return c.signal(syscall.SIGCONT) }

func (c *Cluster) signal(s syscall.Signal) error {
	var failures []error
	for _, d := range c.daemons {
		failures = append(failures, syscall.Kill(-d.command.Process.Pid, s))
	}
	return errors.Join(failures...)
}

// logs are the last words of the daemons.
func (c *Cluster) logs() string {
	var all []string
	for _, d := range c.daemons {
		all = append(all, d.name+": "+d.lastWords())
	}
	return strings.Join(all, "\n")
}

// daemon is a child in the foreground.
type daemon struct {
	name    string
	command *exec.Cmd
	output  *os.File
	ended   <-chan error
}

func (c *Cluster) startDaemon(arguments []string) error {
	output, err := os.Create(c.path("log", arguments[0]+".out"))
	if err != nil {
		return err
	}
	command := exec.Command(arguments[0], append(arguments[1:], "-f")...)
	command.Env = append(os.Environ(), "CEPH_CONF="+c.path("ceph.conf"))
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	ended, err := startTied(command)
	if err != nil {
		return errors.Join(err, output.Close())
	}
	c.daemons = append(c.daemons, &daemon{name: arguments[0], command: command, output: output, ended: ended})
	return nil
}

// stop kills: there is nothing to save.
func (d *daemon) stop() error {
	err := syscall.Kill(-d.command.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		err = nil
	}
	<-d.ended //nolint:errcheck // It was killed, which is what it says.
	return errors.Join(err, d.output.Close())
}

func (d *daemon) lastWords() string {
	const most = 2000
	content, err := os.ReadFile(d.output.Name())
	if err != nil {
		return err.Error()
	}
	if len(content) > most {
		content = content[len(content)-most:]
	}
	return string(content)
}
