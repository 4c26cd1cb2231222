package records

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

func open(t *testing.T, dir string) *AttachmentStore {
	t.Helper()
	s := NewAttachmentStore(dir, nil)
	if err := s.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func on(node string, mode backend.AccessMode) Attachment {
	return Attachment{Node: node, Type: backend.Mount, Mode: mode}
}

func wantNodes(t *testing.T, s *AttachmentStore, volume string, want ...string) {
	t.Helper()
	have, err := s.Of(backend.IDOf(volume))
	if err != nil {
		t.Fatal(err)
	}
	if got := Nodes(have); !slices.Equal(got, want) {
		t.Errorf("volume %s is attached to %q, want %q", volume, got, want)
	}
}

// The error table of ControllerPublishVolume.
func TestMayAttach(t *testing.T) {
	const writer, several, readers = backend.SingleNodeWriter, backend.MultiNodeMultiWriter, backend.MultiNodeReaderOnly
	tests := []struct {
		why    string
		have   []Attachment
		want   Attachment
		repeat bool
		kind   fault.Kind
	}{
		{"attached nowhere", nil, on("a", writer), false, 0},
		{"attached as asked", []Attachment{on("a", writer)}, on("a", writer), true, 0},
		{"attached otherwise", []Attachment{on("a", several)}, on("a", writer), false, fault.Incompatible},
		{"another node has it alone", []Attachment{on("a", writer)}, on("b", writer), false, fault.InUse},
		{"another node has it alone, this one would share", []Attachment{on("a", writer)}, on("b", several), false, fault.InUse},
		{"another node shares, this one would not", []Attachment{on("a", several)}, on("b", writer), false, fault.InUse},
		{"a single-node mode of the alpha", []Attachment{on("a", backend.SingleNodeMultiWriter)}, on("b", several), false, fault.InUse},
		{"both share", []Attachment{on("a", several), on("c", several)}, on("b", readers), false, 0},
		{"a repeat beside others", []Attachment{on("a", several), on("b", several)}, on("b", several), true, 0},
	}
	for _, test := range tests {
		repeat, err := MayAttach(backend.IDOf("vol"), test.have, test.want)
		if repeat != test.repeat || (err != nil) != (test.kind != 0) || (err != nil && !test.kind.Is(err)) {
			t.Errorf("%s: repeat %v, %v", test.why, repeat, err)
		}
	}
}

func TestAttachmentsSurviveARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "attached")
	s := open(t, dir)
	vol, other := backend.IDOf("vol"), backend.IDOf("other")
	for _, err := range []error{
		s.Add(vol, on("b", backend.MultiNodeMultiWriter)), s.Add(vol, on("a", backend.MultiNodeMultiWriter)),
		s.Add(other, on("a", backend.SingleNodeWriter)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []*AttachmentStore{s, open(t, dir)} {
		wantNodes(t, s, "vol", "a", "b")
		wantNodes(t, s, "other", "a")
		wantNodes(t, s, "unknown")
		if n := s.CountOn("a"); n != 2 {
			t.Errorf("%d volumes on node a, want 2", n)
		}
	}
	for range 2 { // idempotent
		if err := s.Remove(vol, "b"); err != nil {
			t.Fatal(err)
		}
	}
	wantNodes(t, open(t, dir), "vol", "a")
	if err := s.Remove(vol, ""); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(other, "a"); err != nil {
		t.Fatal(err)
	}
	wantNodes(t, open(t, dir), "vol")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A volume with a damaged record is attached to no second node.
func TestADamagedAttachmentRecordBlocksItsVolume(t *testing.T) {
	damages := map[string]string{
		"empty": "", "cut off": `{"format":1,"vol`, "newer": `{"format":2,"volume":"vol","nodes":[{"node":"a"}]}`,
		"another volume": `{"format":1,"volume":"other","nodes":[{"node":"a","accessMode":"SINGLE_NODE_WRITER"}]}`,
		"no nodes":       `{"format":1,"volume":"vol","nodes":[]}`,
		"no mode":        `{"format":1,"volume":"vol","nodes":[{"node":"a"}]}`,
	}
	for name, content := range damages {
		t.Run(name, func(t *testing.T) {
			dir, vol := t.TempDir(), backend.IDOf("vol")
			if err := os.WriteFile(filepath.Join(dir, "vol.json"), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "file-123"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			s := open(t, dir)
			if _, err := s.Of(vol); !fault.Internal.Is(err) {
				t.Errorf("Of: %v, want an error", err)
			}
			if err := s.Add(vol, on("a", backend.SingleNodeWriter)); err == nil {
				t.Error("the volume was attached")
			}
			if err := s.Remove(vol, "a"); err == nil {
				t.Error("the volume was detached from a node of which nothing is known")
			}
			wantNodes(t, s, "other")
			if err := s.Remove(vol, ""); err != nil {
				t.Fatal(err)
			}
			wantNodes(t, s, "vol")
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}
