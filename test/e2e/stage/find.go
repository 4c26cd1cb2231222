package stage

import (
	"fmt"
	"os"
	"path/filepath"
)

// Root is the folder of the repository that the working directory is in.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod above the working directory; run this inside of the repository")
		}
		dir = parent
	}
}

// Bin is the repository's folder of built programs. The error says what to build.
func Bin() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(root, "bin")
	for _, name := range []string{"purser", "etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubectl", "crds"} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			return "", fmt.Errorf("%s is not built; run 'make build cluster-tools'", filepath.Join("bin", name))
		}
	}
	return bin, nil
}
