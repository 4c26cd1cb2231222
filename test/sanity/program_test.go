package sanity

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// findProgram looks where the tools may have been built, or skips.
func findProgram(t *testing.T) string {
	t.Helper()
	for _, dir := range programDirs() {
		path := filepath.Join(dir, program)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	t.Skip(program + " not found: run make tools")
	return ""
}

func programDirs() (dirs []string) {
	for _, variable := range []string{"PURSER_BIN", "KUBEBUILDER_ASSETS"} {
		if dir := os.Getenv(variable); dir != "" {
			dirs = append(dirs, dir)
		}
	}
	if root, err := moduleRoot(); err == nil {
		dirs = append(dirs, filepath.Join(root, "bin"))
	}
	return dirs
}

// moduleRoot goes up from the working directory, which is this package's.
func moduleRoot() (string, error) {
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
			return "", errors.New("no go.mod in any parent directory")
		}
		dir = parent
	}
}
