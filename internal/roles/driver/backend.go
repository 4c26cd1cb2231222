package driver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/directory"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile"
	"github.com/purser-csi/purser/internal/driver/durable"
	"github.com/purser-csi/purser/internal/driver/reserve"
)

const (
	backendLoopfile = "loopfile"
	// BackendDirectory is the backend that needs neither root nor loop devices.
	BackendDirectory = "directory"
)

var backends = []string{backendLoopfile, BackendDirectory}

// chosen is a backend, and one sentence for the user with the reason for the choice.
type chosen struct {
	kind   string
	reason string
}

// chooseBackend never changes the backend of a state directory. A backend does not see the volumes
// of another one, and a driver that was upgraded, or started once without root, must not lose them.
func (d *Driver) chooseBackend(state string) (chosen, error) {
	began, err := beganWith(state)
	switch {
	case err != nil:
		return chosen{}, err
	case began == "":
		return d.firstChoice(state)
	case d.Backend != "" && d.Backend != began:
		return chosen{}, fmt.Errorf(
			"--backend=%s: the state directory %s holds volumes of the backend %s; choose another --state-dir, or "+
				"that backend",
			d.Backend,
			state,
			began,
		)
	case began == backendLoopfile:
		err := loopfile.Usable(state)
		if reserve.IsFull(err) {
			// The driver must start, or no volume could be unpublished or deleted.
			return chosen{kind: began, reason: "volumes are " + whatAre[began] +
				", as before; the pool is full, so loop devices were not tried: " + err.Error()}, nil
		}
		if err != nil {
			return chosen{}, fmt.Errorf(
				"the state directory %s holds loop images, and they cannot be used here: %w; choose another "+
					"--state-dir, or mend that",
				state,
				err,
			)
		}
	}
	return chosen{kind: began, reason: "volumes are " + whatAre[began] + ", as before in this state directory"}, nil
}

// firstChoice chooses the backend of a state directory without volumes.
func (d *Driver) firstChoice(state string) (chosen, error) {
	if d.Backend == BackendDirectory {
		return chosen{kind: BackendDirectory, reason: "volumes are " + whatAre[BackendDirectory]}, nil
	}
	err := loopfile.Usable(state)
	switch {
	case err == nil:
		return chosen{kind: backendLoopfile, reason: "volumes are " + whatAre[backendLoopfile]}, nil
	case reserve.IsFull(err):
		return chosen{}, fmt.Errorf(
			"the filesystem of the state directory %s is full: %w; free some space there", state, err,
		)
	case d.Backend == backendLoopfile:
		return chosen{}, fmt.Errorf("--backend=%s: %w", d.Backend, err)
	default:
		return chosen{kind: BackendDirectory, reason: fmt.Sprintf(
			"volumes are %s: %v", whatAre[BackendDirectory], err,
		)}, nil
	}
}

var whatAre = map[string]string{
	backendLoopfile:  "image files on loop devices, with a hard size",
	BackendDirectory: "directories without a size limit",
}

func (d *Driver) newBackend(kind, state string) (backend.Backend, error) {
	if kind == backendLoopfile {
		return loopfile.New(loopfile.Config{
			StateDir: state, OverCommit: d.Loopfile.OverCommit, MaxVolumes: d.Loopfile.MaxVolumes,
			FreezeBound: d.Loopfile.FreezeBound,
		})
	}
	return directory.New(directory.Config{StateDir: state})
}

// kindFile holds the backend of a state directory.
const kindFile = "backend"

// beganWith returns the backend of a state directory; empty for one without volumes.
func beganWith(state string) (string, error) {
	path := filepath.Join(state, kindFile)
	content, err := os.ReadFile(path)
	if err == nil {
		kind := strings.TrimSpace(string(content))
		if !slices.Contains(backends, kind) {
			return "", fmt.Errorf(
				"%s: backend %q is not known to this version; it knows %s",
				path,
				kind,
				strings.Join(backends, ", "),
			)
		}
		return kind, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("find out the backend of the state directory: %w", err)
	}
	return "", nil
}

// keepKind writes the choice to disk.
func keepKind(state, kind string) error {
	if began, err := beganWith(state); err == nil && began == kind {
		return nil
	}
	return durable.WriteFile(filepath.Join(state, kindFile), state, []byte(kind+"\n"))
}
