package httpsource

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
)

// stateFile is in the root of a filesystem while the data is not whole.
const stateFile = ".purser-populate.json"

// state says what of which source is in the filesystem. A device has no room for it.
type state struct {
	URL    string `json:"url"` // without the query
	Format string `json:"format"`
	SHA256 string `json:"sha256,omitempty"`
	File   string `json:"file,omitempty"`
	Mark   string `json:"mark,omitempty"`
	Size   int64  `json:"size"`
	Synced int64  `json:"synced"` // bytes of the file that are on the disk
}

// readState returns the state of the last attempt; nil for none. One that cannot be read is as none.
func readState(root *os.Root) (*state, error) {
	raw, err := root.ReadFile(stateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s state
	if json.Unmarshal(raw, &s) != nil {
		return &state{}, nil // it was being written: nothing of it counts, and what is there is removed
	}
	return &s, nil
}

// isSame reports whether the state is about the same source.
func (s *state) isSame(as state) bool {
	return s != nil && s.URL == as.URL && s.Format == as.Format && s.SHA256 == as.SHA256 && s.File == as.File
}

func (s state) write(root *os.Root) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := root.WriteFile(stateFile+".new", raw, 0o600); err != nil {
		return err
	}
	return root.Rename(stateFile+".new", stateFile)
}

// removeState marks the data as whole.
func removeState(root *os.Root) error {
	err := root.Remove(stateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
