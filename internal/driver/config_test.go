package driver

import (
	"strings"
	"testing"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/mount"
)

func goodConfig(t *testing.T) Config {
	return Config{
		NodeID: "node-1", Endpoint: "unix:///run/csi.sock", StateDir: "/var/lib/purser",
		Backend: directories(t, "/var/lib/purser"), Mounter: mount.SymlinkMounter{},
	}
}

func TestNew(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Config)
		want   string // a part of the error; empty for none
	}{
		{"good", func(*Config) {}, ""},
		{"63 letters", func(c *Config) { c.Name = strings.Repeat("a", 63) }, ""},
		{"one letter", func(c *Config) { c.Name = "a" }, ""},
		{"64 letters", func(c *Config) { c.Name = strings.Repeat("a", 64) }, "Name "},
		{"slash in the name", func(c *Config) { c.Name = "a/b" }, `Name "a/b"`},
		{"dash at the end", func(c *Config) { c.Name = "csi-" }, `Name "csi-"`},
		{"long version", func(c *Config) { c.Version = strings.Repeat("1", 129) }, "129 bytes"},
		{"no node", func(c *Config) { c.NodeID = "" }, "NodeID: missing"},
		{"256 bytes of node", func(c *Config) { c.NodeID = strings.Repeat("n", 256) }, ""},
		{"257 bytes of node", func(c *Config) { c.NodeID = strings.Repeat("n", 257) }, "257 bytes"},
		{"no endpoint", func(c *Config) { c.Endpoint = "" }, "Endpoint: must be"},
		{"a path as endpoint", func(c *Config) { c.Endpoint = "/run/csi.sock" }, "must be unix://"},
		{"tcp", func(c *Config) { c.Endpoint = "tcp://:9000" }, "must be unix://"},
		{"relative socket", func(c *Config) { c.Endpoint = "unix://csi.sock" }, "absolute path"},
		{"a folder as socket", func(c *Config) { c.Endpoint = "unix:///run/" }, "absolute path"},
		{"107 bytes of path", func(c *Config) { c.Endpoint = "unix:///" + strings.Repeat("s", 106) }, ""},
		{"108 bytes of path", func(c *Config) { c.Endpoint = "unix:///" + strings.Repeat("s", 107) }, "108 bytes, but the kernel allows 107"},
		{"relative state", func(c *Config) { c.StateDir = "state" }, `StateDir "state"`},
		{"negative bound", func(c *Config) { c.StopTimeout = -time.Second }, `StopTimeout "-1s"`},
		{"no backend", func(c *Config) { c.Backend = nil }, "Backend: missing"},
		{"a backend that cannot publish", func(c *Config) { c.Backend = bare{c.Backend} }, "backend.Direct"},
		{"no mounter", func(c *Config) { c.Mounter = nil }, "Mounter: missing"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			config := goodConfig(t)
			test.change(&config)
			_, err := New(config)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("New: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("New: %v, want %q", err, test.want)
			}
		})
	}
}

func TestNewListsEveryMistake(t *testing.T) {
	_, err := New(Config{Name: "-", StopTimeout: -1})
	if err == nil {
		t.Fatal("an empty configuration was accepted")
	}
	for _, part := range []string{"configuration: 7", "Name", "NodeID", "Endpoint", "StateDir", "StopTimeout", "Backend", "Mounter"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
}

// bare is a backend without any optional interface.
type bare struct{ backend.Backend }
