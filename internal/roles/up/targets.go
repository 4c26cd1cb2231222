package up

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

const (
	// targetsName is the file of a data folder that says where the metrics are.
	targetsName = "metrics.json"
	// anyPort has the system choose the port of a role whose address is read from that file.
	anyPort = "127.0.0.1:0"
)

// targets are the addresses at which the roles serve their metrics, in a file as Prometheus reads it
// (file_sd_configs). The zero value, of an `up` without --http-endpoint, has none and writes nothing.
type targets struct {
	path string

	mu      sync.Mutex
	address map[string]string // by role
	failed  error
}

// target is an entry of the file.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// open forgets the addresses of an earlier run, at which nothing or another process listens.
func (t *targets) open(dir, endpoint string) error {
	path := filepath.Join(dir, targetsName)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("the addresses of the last run: %w", err)
	}
	if endpoint != "" {
		t.path, t.address = path, map[string]string{}
	}
	return nil
}

// endpoint returns what a role serves its metrics at: own, or any port where up has an endpoint at all.
func (t *targets) endpoint(own string) string {
	if t.path == "" || own != "" {
		return own
	}
	return anyPort
}

// listened returns the function that notes the address of a role.
func (t *targets) listened(role string) func(net.Addr) {
	return func(where net.Addr) { t.note(role, where.String()) }
}

// note writes the file anew, so that a reader sees it whole. The roles go on without it.
func (t *targets) note(role, address string) {
	if t.path == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.address[role] = address
	var all []target
	for _, role := range slices.Sorted(maps.Keys(t.address)) {
		all = append(all, target{Targets: []string{t.address[role]}, Labels: map[string]string{"role": role}})
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err == nil {
		err = os.WriteFile(t.path+".new", append(text, '\n'), 0o600)
	}
	if err == nil {
		err = os.Rename(t.path+".new", t.path)
	}
	if err != nil {
		t.failed = err
	}
}

// err returns why the file is not complete; nil if it is.
func (t *targets) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}
