package driver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/directory"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile"

	"github.com/purser-csi/purser/internal/driver/records"

	"github.com/purser-csi/purser/internal/mount"
)

// recordKinds are the records of the driver and of its backends: each writes the content into the
// file of volume "vol" in a new folder, starts on it, and returns the error of a question about the
// volume, and the file.
var recordKinds = []struct {
	name string
	try  func(t *testing.T, content []byte) (path string, err error)
}{
	{"staging", func(t *testing.T, content []byte) (string, error) {
		dir := t.TempDir()
		path := writeTo(t, filepath.Join(dir, "vol.json"), content)
		s := records.NewStagingStore(dir, nil)
		if err := s.Recover(t.Context()); err != nil {
			return path, err
		}
		_, _, err := s.Of(backend.IDOf("vol"))
		return path, err
	}},
	{"attachment", func(t *testing.T, content []byte) (string, error) {
		dir := t.TempDir()
		path := writeTo(t, filepath.Join(dir, "vol.json"), content)
		s := records.NewAttachmentStore(dir, nil)
		if err := s.Recover(t.Context()); err != nil {
			return path, err
		}
		_, err := s.Of(backend.IDOf("vol"))
		return path, err
	}},
	{"zone", func(t *testing.T, content []byte) (string, error) {
		dir := t.TempDir()
		path := writeTo(t, filepath.Join(dir, "vol.json"), content)
		s := records.NewZoneStore(dir, []records.Zone{{Name: "a"}}, nil)
		return path, s.Recover(t.Context(), func(backend.ID) (bool, error) { return true, nil })
	}},
	{"publication", func(t *testing.T, content []byte) (string, error) {
		dir := t.TempDir()
		path := writeTo(t, filepath.Join(dir, "vol@"+strings.Repeat("0", 64)+".json"), content)
		s := records.NewPublicationStore(records.PublicationConfig{Dir: dir, Checker: mount.SymlinkMounter{}})
		if err := s.Recover(t.Context()); err != nil {
			return path, err
		}
		_, err := s.Live(t.Context(), backend.IDOf("vol"))
		return path, err
	}},
	{"directory", func(t *testing.T, content []byte) (string, error) {
		state := t.TempDir()
		b, err := directory.New(directory.Config{StateDir: state})
		if err != nil {
			t.Fatal(err)
		}
		return question(t, state, content, b, b.Recover(t.Context()))
	}},
	{"loopfile", func(t *testing.T, content []byte) (string, error) {
		state := t.TempDir()
		b, err := loopfile.New(loopfile.Config{StateDir: state})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(state, "volumes", "vol"), 0o700); err != nil {
			t.Fatal(err)
		}
		writeTo(t, filepath.Join(state, "volumes", "vol", "image"), make([]byte, 4096))
		return question(t, state, content, b, nil)
	}},
	{"snapshot", func(t *testing.T, content []byte) (string, error) {
		b, dir := newLoopfile(t, "snapshots")
		path := writeTo(t, filepath.Join(dir, "snapshot.json"), content)
		_, err := b.GetSnapshot(t.Context(), backend.IDOf("vol"))
		return path, err
	}},
	{"group", func(t *testing.T, content []byte) (string, error) {
		b, dir := newLoopfile(t, "groups")
		path := writeTo(t, filepath.Join(dir, "group.json"), content)
		_, err := b.GetGroup(t.Context(), backend.IDOf("vol"))
		return path, err
	}},
	{"staged", func(t *testing.T, content []byte) (string, error) {
		b, dir := newLoopfile(t, "volumes")
		path := writeTo(t, filepath.Join(dir, "..", "..", "staged", "vol.json"), content)
		_, _, err := b.StagedAs(t.Context(), backend.IDOf("vol")) // heals a damaged record
		return path, err
	}},
}

// newLoopfile returns a backend, and the folder of volume, snapshot or group "vol" with an image.
func newLoopfile(t *testing.T, of string) (*loopfile.Backend, string) {
	t.Helper()
	state := t.TempDir()
	b, err := loopfile.New(loopfile.Config{StateDir: state})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(state, of, "vol")
	writeTo(t, filepath.Join(dir, "image"), make([]byte, 4096))
	return b, dir
}

func writeTo(t *testing.T, path string, content []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func question(t *testing.T, state string, content []byte, b backend.Backend, err error) (string, error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	path := writeTo(t, filepath.Join(state, "volumes", "vol", "volume.json"), content)
	_, err = b.Get(t.Context(), backend.IDOf("vol"))
	return path, err
}

// FuzzRecords: a damaged record on disk is an error that names the volume or the file and what to
// do, never a panic, and the record is still there for the operator.
func FuzzRecords(f *testing.F) {
	for kind := range recordKinds {
		for _, content := range []string{
			"", "{", "null", "[]", "0", `{"format":1}`, `{"format":2,"volume":"vol"}`,
			`{"format":1,"volume":"vol","path":"/a","accessType":"mount","accessMode":"SINGLE_NODE_WRITER"}`,
			`{"format":1,"volume":"vol","target":"/a","source":"/b"}`, `{"format":1,"volume":"../vol","path":"/a"}`,
			`{"format":1,"name":"vol","capacityBytes":-1,"capabilities":null}`, `{"format":1,"name":"other"}`,
			`{"format":1,"name":"vol","fromSnapshot":"../x"}`, `{"format":1,"volume":"vol","attachments":[{"node":""}]}`,
			`{"zone":"a","bytes":-9223372036854775808}`, "\x00\x00\x00\x00",
			`{"format":1,"name":"vol","source":"../x","created":"2026-01-31T12:00:00Z","least":-1}`, `{"format":1,"name":"vol","source":"other","group":"x"}`,
			`{"path":"/a","access":"mount","filesystem":"ext4"}`, `{"path":"../a","access":"block"}`, `{"access":"mount"}`,
		} {
			f.Add(uint8(kind), []byte(content))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, content []byte) {
		kind := recordKinds[int(which)%len(recordKinds)]
		path, err := kind.try(t, content)
		if err == nil {
			return
		}
		text := err.Error()
		if !strings.Contains(text, "vol") || !strings.Contains(text, ";") {
			t.Errorf("%s: %v: it does not name the volume and what to do", kind.name, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != string(content) {
			t.Errorf("%s: the damaged record is %q, %v", kind.name, got, err)
		}
	})
}
