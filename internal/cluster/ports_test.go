package cluster

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestPortsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ports.json")
	first := choose(t, path)
	if first.Etcd == first.APIServer || first.Etcd == 0 || first.APIServer == 0 {
		t.Fatalf("ports %+v", first)
	}
	if again := choose(t, path); again != first {
		t.Errorf("ports changed from %+v to %+v", first, again)
	}
}

func TestTakenPortIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ports.json")
	first := choose(t, path)
	l, err := net.Listen("tcp", address(first.APIServer))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	second := choose(t, path)
	if second.APIServer == first.APIServer || second.Etcd != first.Etcd {
		t.Errorf("ports %+v, want only the taken one of %+v replaced", second, first)
	}
	if saved := readPorts(path); saved != second {
		t.Errorf("saved %+v, want %+v", saved, second)
	}
}

func TestUselessPortsFile(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON":       "{",
		"out of range":   `{"etcd":70000,"kubeAPIServer":-1}`,
		"twice the same": `{"etcd":40001,"kubeAPIServer":40001}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ports.json")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if p := choose(t, path); p.Etcd == p.APIServer || p.Etcd <= 0 || p.APIServer <= 0 {
				t.Errorf("ports %+v", p)
			}
		})
	}
}

func choose(t *testing.T, path string) ports {
	t.Helper()
	p, err := choosePorts(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
