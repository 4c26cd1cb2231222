package httpsource

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// stateFile is in the root of a filesystem while the data is not whole.
const stateFile = ".purser-populate.json"

// isState reports whether a name is that of the state, or of the one that is being written.
func isState(name string) bool { return name == stateFile || name == stateFile+".new" }

// state says what of which source is in the filesystem. A device has no room for it.
type state struct {
	URL    string `json:"url"` // without the query, and without a checksum of the file with a hash of the whole URL
	Format string `json:"format"`
	SHA256 string `json:"sha256,omitempty"`
	File   string `json:"file,omitempty"`
	Mark   string `json:"mark,omitempty"`
	Size   int64  `json:"size"`   // -1 while it is not known
	Synced int64  `json:"synced"` // bytes of the file that are on the disk
}

// newState returns the state of a source of which nothing is written. A query is no part of it if a checksum
// says what the file is: it may have a signature that expires.
func newState(source Source) state {
	s := state{URL: Shown(source.URL), Format: source.Format, SHA256: source.SHA256, Size: -1}
	if source.Format == formatRaw {
		s.File = source.FileName
	}
	if s.SHA256 == "" {
		s.URL += fmt.Sprintf("#%x", sha256.Sum256([]byte(source.URL)))
	}
	return s
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
