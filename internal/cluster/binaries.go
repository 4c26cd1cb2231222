package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// assetsEnv is the variable of controller-runtime's envtest, so that a folder for envtest works
// here too.
const assetsEnv = "KUBEBUILDER_ASSETS"

// Binaries are the absolute paths of programs, by name.
type Binaries map[string]string

// MissingError says which programs were not found, where they were looked for, and what to do.
type MissingError struct {
	Programs []string
	Looked   []string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf(
		"missing programs: %s (looked in %s); run `make cluster-tools`, or set %s to a folder that has them",
		strings.Join(e.Programs, ", "),
		strings.Join(e.Looked, ", "),
		assetsEnv,
	)
}

// FindBinaries looks for programs in $KUBEBUILDER_ASSETS where it is set, then in dirs, then in
// PATH. Programs that are nowhere are reported together, as a *MissingError.
func FindBinaries(names []string, dirs ...string) (Binaries, error) {
	if assets := os.Getenv(assetsEnv); assets != "" {
		dirs = append([]string{assets}, dirs...)
	}
	found, missing := Binaries{}, &MissingError{Looked: append(slices.Clip(dirs), "PATH")}
	for _, name := range names {
		if path, ok := find(name, dirs); ok {
			found[name] = path
		} else {
			missing.Programs = append(missing.Programs, name)
		}
	}
	if len(missing.Programs) > 0 {
		return nil, missing
	}
	return found, nil
}

func find(name string, dirs []string) (string, bool) {
	for _, dir := range dirs {
		path, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, true
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", false
	}
	path, err = filepath.Abs(path)
	return path, err == nil
}
