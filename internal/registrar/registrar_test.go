package registrar

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	kubelet "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

func contains(text, part string) bool {
	return text == part || part != "ok" && strings.Contains(text, part)
}

var registered = &kubelet.RegistrationStatus{PluginRegistered: true}

// NR-12, NR-14, NR-15: a driver that answers is registered, and not any more at the end.
func TestRegistration(t *testing.T) {
	r := newRig(t)
	r.startDriver()
	reg, end := r.start()
	file := r.published(driverName)
	if mode := file.Mode().Perm(); mode != 0o600 {
		t.Errorf("NR-11: the socket has the mode %o", mode)
	}
	r.says(reg, 200, "ok: the kubelet has not asked yet")
	info := r.kubelet(driverName, nil)
	if info.GetType() != "CSIPlugin" || info.GetName() != driverName || info.GetEndpoint() != "/var/lib/kubelet/plugins/x/csi.sock" ||
		!slices.Equal(info.GetSupportedVersions(), []string{"1.0.0"}) {
		t.Errorf("NR-12: %v", info)
	}
	r.says(reg, 200, "has not answered yet")
	if err := reg.Ready(t.Context()); err == nil {
		t.Error("ready before the kubelet has answered")
	}
	r.kubelet(driverName, registered)
	r.says(reg, 200, "ok")
	if err := reg.Ready(t.Context()); err != nil {
		t.Errorf("not ready: %v", err)
	}
	end(nil)
	if entries, err := os.ReadDir(r.dir); err != nil || len(entries) > 0 {
		t.Errorf("NR-15: %v is left, %v", entries, err)
	}
	if problem := reg.LastProblem(); problem != "" {
		t.Errorf("the last problem: %q", problem)
	}
}

// NR-H4: a refusal does not end the process, and its reason is said until the kubelet accepts.
func TestRefusal(t *testing.T) {
	r := newRig(t)
	r.startDriver()
	reg, end := r.start()
	r.published(driverName)
	r.kubelet(driverName, &kubelet.RegistrationStatus{Error: "no Node object\x1b[2J"})
	r.says(reg, 200, `ok: the kubelet refused the driver: no Node object\x1b[2J`)
	if err := reg.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "no Node object") {
		t.Errorf("ready: %v", err)
	}
	r.kubelet(driverName, registered)
	r.says(reg, 200, "ok")
	r.kubelet(driverName, &kubelet.RegistrationStatus{Error: "again"})
	end(nil)
	if got := reg.LastProblem(); !strings.Contains(got, "again") {
		t.Errorf("the last problem: %q", got)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.answers) != 3 || r.answers[0].Refusals != 1 || !r.answers[1].Registered || r.answers[2].Refusals != 1 {
		t.Errorf("answers: %+v", r.answers)
	}
}

// NR-H5: the driver may listen long after the registrar, and may hang in GetPluginInfo.
func TestDriverIsWaitedFor(t *testing.T) {
	r := newRig(t)
	reg, _ := r.start()
	r.says(reg, 200, "ok: waiting for the csi driver")
	r.driver.hang = make(chan struct{})
	r.startDriver()
	r.says(reg, 200, "GetPluginInfo: rpc error: code = DeadlineExceeded")
	if entries, err := os.ReadDir(r.dir); err != nil || len(entries) > 0 {
		t.Errorf("NR-H5: published before the driver answers: %v, %v", entries, err)
	}
	close(r.driver.hang)
	r.published(driverName)
	r.driver.set("", "i-1")
}

// NR-11: an empty name, and one that is a path, are not published.
func TestUnfitNames(t *testing.T) {
	r := newRig(t)
	r.driver.set("", "i-1")
	r.startDriver()
	reg, _ := r.start()
	r.says(reg, 200, "empty name")
	r.stopDriver()
	r.driver.set("../../escaped", "i-1")
	r.startDriver()
	r.says(reg, 200, `the name of the csi driver is "../../escaped"`)
	if _, err := os.Lstat(filepath.Join(r.dir, "../../escaped-reg.sock")); err == nil {
		t.Error("NR-10: a socket is outside of the folder")
	}
	r.stopDriver()
	r.driver.set(driverName, "i-1")
	r.startDriver()
	r.published(driverName)
}

// stale leaves a socket at which no process listens, as a killed one does.
func (r *rig) stale(path string) {
	r.Helper()
	elsewhere := r.socket + ".stale"
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: elsewhere, Net: "unix"})
	if err != nil {
		r.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	_ = listener.Close()
	if err := os.Rename(elsewhere, path); err != nil {
		r.Fatal(err)
	}
}

// NR-11, NR-H3: a stale socket is replaced once the driver answers, and a file is not.
func TestWhatIsAtThePath(t *testing.T) {
	r := newRig(t)
	r.stale(r.path(driverName))
	reg, end := r.start()
	r.says(reg, 200, "waiting")
	if _, err := os.Lstat(r.path(driverName)); err != nil {
		t.Errorf("the stale socket was removed before there is a new one: %v", err)
	}
	r.startDriver()
	r.published(driverName)
	end(nil)
	if err := os.WriteFile(r.path(driverName), []byte("of an administrator"), 0o600); err != nil {
		t.Fatal(err)
	}
	reg, _ = r.start()
	r.says(reg, 200, "a file that is no socket")
	if text, err := os.ReadFile(r.path(driverName)); err != nil || len(text) == 0 {
		t.Errorf("NR-11: the file was changed: %q, %v", text, err)
	}
	if err := os.Remove(r.path(driverName)); err != nil {
		t.Fatal(err)
	}
	r.published(driverName)
}

// NR-3: the folder may be mounted late.
func TestFolderIsMissing(t *testing.T) {
	r := newRig(t)
	if err := os.Remove(r.dir); err != nil {
		t.Fatal(err)
	}
	r.startDriver()
	reg, _ := r.start()
	r.says(reg, 200, "the folder of the registration sockets cannot be read")
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r.published(driverName)
}

// NR-H2, NR-14: a socket that is deleted, or replaced by a dead one, is made again.
func TestSocketIsLost(t *testing.T) {
	r := newRig(t)
	r.startDriver()
	reg, _ := r.start()
	file := r.published(driverName)
	r.kubelet(driverName, registered)
	for range 3 {
		if err := os.Remove(r.path(driverName)); err != nil {
			t.Fatal(err)
		}
		file = r.another(driverName, file)
	}
	r.says(reg, 200, "ok: the kubelet has not asked yet") // it registers the new socket
	r.stale(r.path(driverName))
	r.another(driverName, file)
}

// NR-H2: the newest of two instances registers the driver; the older one takes over when it ends.
func TestTwoInstances(t *testing.T) {
	r := newRig(t)
	r.startDriver()
	older, endOlder := r.start()
	first := r.published(driverName)
	newer, endNewer := r.start()
	second := r.another(driverName, first)
	r.says(older, 200, "another process registers the driver")
	if err := older.Ready(t.Context()); err != nil {
		t.Errorf("the older one: %v", err)
	}
	r.says(newer, 200, "ok: the kubelet has not asked yet")
	endNewer(nil)
	again := r.another(driverName, second)
	_, endThird := r.start()
	third := r.another(driverName, again)
	r.says(older, 200, "another process registers the driver")
	endOlder(nil)
	if file := r.published(driverName); !os.SameFile(file, third) {
		t.Error("NR-15: the end of the older one removed the socket of the newer one")
	}
	endThird(nil)
	if _, err := os.Lstat(r.path(driverName)); err == nil {
		t.Error("NR-15: the last one left its socket")
	}
}

// NR-16, NR-H1: a driver that restarts stays registered, and is registered anew only if it has another
// name or node.
func TestDriverRestarts(t *testing.T) {
	r := newRig(t)
	r.startDriver()
	reg, _ := r.start()
	file := r.published(driverName)
	r.kubelet(driverName, registered)
	r.eventually("the node is known", func() bool {
		reg.mu.Lock()
		defer reg.mu.Unlock()
		return reg.what.Node != ""
	})
	r.says(reg, 200, "ok")
	r.stopDriver()
	r.says(reg, 200, "ok: the csi driver does not answer")
	if now := r.published(driverName); !os.SameFile(now, file) {
		t.Error("NR-16: a new socket while the driver is away")
	}
	r.startDriver()
	r.says(reg, 200, "ok")
	if now := r.published(driverName); !os.SameFile(now, file) {
		t.Error("NR-H1: a new socket for the same node")
	}
	r.stopDriver()
	r.driver.set(driverName, "i-2")
	r.startDriver()
	r.another(driverName, file)
	r.stopDriver()
	r.driver.set("other.example.com", "i-2")
	r.startDriver()
	r.published("other.example.com")
	if _, err := os.Lstat(r.path(driverName)); err == nil {
		t.Error("NR-H1: the socket of the old name is left")
	}
}

// The process that is started again at once leaves its socket, which the next one replaces.
func TestSocketIsKept(t *testing.T) {
	r := newRig(t)
	r.startDriver()
	_, end := r.start()
	file := r.published(driverName)
	end(errors.Join(ErrKeepSocket, errors.New("the lease is lost")))
	if _, err := os.Lstat(r.path(driverName)); err != nil {
		t.Errorf("the socket is gone: %v", err)
	}
	r.start()
	r.another(driverName, file)
}
