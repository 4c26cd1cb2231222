package live

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/purser-csi/purser/internal/roles/registrar"
	"github.com/purser-csi/purser/test/rolestest"
	"github.com/purser-csi/purser/test/scripted"
)

// pluginManager is the part of a kubelet that registers plugins, in a process of its own.
type pluginManager struct {
	*testing.T

	mu    sync.Mutex
	lines []string
}

// startPluginManager starts it, until the test or the caller ends it.
func startPluginManager(t *testing.T, program, dir, refuse string) (m *pluginManager, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	command := exec.CommandContext(ctx, program, dir, refuse)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	m = &pluginManager{T: t}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			m.mu.Lock()
			m.lines = append(m.lines, lines.Text())
			m.mu.Unlock()
		}
	}()
	var once sync.Once
	end = func() {
		once.Do(func() {
			cancel()
			<-read
			_ = command.Wait() // it was killed
		})
	}
	t.Cleanup(end)
	return m, end
}

// sees waits until a line begins so for the nth time.
func (m *pluginManager) sees(n int, line string) {
	m.Helper()
	rolestest.Eventually(m.T, fmt.Sprintf("%q for the %d. time", line, n), func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		have := 0
		for _, one := range m.lines {
			if strings.HasPrefix(one, line) {
				have++
			}
		}
		if have < n {
			return fmt.Errorf("the plugin manager has printed %q", m.lines)
		}
		return nil
	})
}

// NR-12, NR-13, NR-15, NR-H1, NR-H2, NR-H4: a registrar and a kubelet's own plugin manager: registration,
// a restart of either, a socket that is lost, a refusal, and the end.
func TestRegistrarAndKubelet(t *testing.T) {
	program := os.Getenv("PLUGIN_MANAGER")
	if program == "" {
		t.Skip("PLUGIN_MANAGER names no program: make test-registrar builds it")
	}
	base := scripted.SocketDir(t)
	dir, refuse := filepath.Join(base, "r"), filepath.Join(base, "refuse")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	kubelet, stopKubelet := startPluginManager(t, program, dir, refuse)

	d := &scriptedDriver{name: "registered.example.com", node: "i-1"}
	socket := d.serve(t)
	begin := func() (*registrar.Role, func()) {
		r := registrar.New()
		r.CSIAddress, r.Endpoint, r.Dir = socket, "/plugins/registered/csi.sock", dir
		r.Log, r.TerminationLog = (&rolestest.Log{}).Logger(), filepath.Join(base, "none")
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		return r, rolestest.InBackground(t, r.Run)
	}
	_, end := begin()
	kubelet.sees(1, "validate registered.example.com /plugins/registered/csi.sock [1.0.0]")
	kubelet.sees(1, "register registered.example.com /plugins/registered/csi.sock")

	path := filepath.Join(dir, "registered.example.com-reg.sock")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	kubelet.sees(2, "register registered.example.com") // the socket is made again

	end()
	kubelet.sees(1, "deregister registered.example.com")
	_, end = begin()
	kubelet.sees(3, "register registered.example.com")

	stopKubelet()
	kubelet, _ = startPluginManager(t, program, dir, refuse)
	kubelet.sees(1, "register registered.example.com") // without a change of the socket

	end()
	kubelet.sees(1, "deregister registered.example.com")
	if err := os.WriteFile(refuse, []byte("no Node object"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _ = begin()
	kubelet.sees(2, "refuse registered.example.com") // the kubelet retries, and the registrar goes on
	if err := os.Remove(refuse); err != nil {
		t.Fatal(err)
	}
	kubelet.sees(2, "register registered.example.com")
	if entries, err := os.ReadDir(dir); err != nil || !slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return e.Name() == filepath.Base(path)
	}) {
		t.Errorf("%v, %v", entries, err)
	}
}
