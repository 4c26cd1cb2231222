package cluster

import (
	"fmt"
	"os"
	"path/filepath"
)

// layout knows where things are in the data folder.
type layout string

func (l layout) path(elem ...string) string {
	return filepath.Join(append([]string{string(l)}, elem...)...)
}

func (l layout) pki() string             { return l.path("pki") }
func (l layout) etcdData() string        { return l.path("etcd") }
func (l layout) ports() string           { return l.path("ports.json") }
func (l layout) auditPolicy() string     { return l.path("audit-policy.yaml") }
func (l layout) auditLog() string        { return l.path("logs", "audit.log") }
func (l layout) log(c Component) string  { return l.path("logs", string(c)+".log") }
func (l layout) adminKubeconfig() string { return l.path("kubeconfig") }

func (l layout) kubeconfig(c Component) string { return l.path(string(c) + ".kubeconfig") }

func (l layout) create() error {
	for _, dir := range []string{string(l), l.path("logs"), l.etcdData()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("making the data folder: %w", err)
		}
	}
	return nil
}
