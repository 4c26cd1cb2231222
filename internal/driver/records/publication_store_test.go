package records

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/durable"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/mount"
)

// reality says what is mounted: a target that is not listed is not.
type reality map[string]error

func (r reality) IsBound(_, target string) (bool, error) {
	err, listed := r[target]
	return listed && err == nil, err
}

func openPublications(t *testing.T, dir string, mounts reality) *PublicationStore {
	t.Helper()
	s := NewPublicationStore(PublicationConfig{Dir: dir, Checker: mounts})
	if err := s.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func publicationOf(volume, target string) Publication {
	return Publication{
		Volume: backend.IDOf(volume), Target: target, Source: "/state/volumes/" + volume + "/data",
		Type: backend.Mount, Mode: backend.SingleNodeMultiWriter, ReadOnly: true,
	}
}

func put(t *testing.T, s *PublicationStore, records ...Publication) {
	t.Helper()
	for _, r := range records {
		if err := s.Put(r); err != nil {
			t.Fatal(err)
		}
	}
}

func wantLive(t *testing.T, s *PublicationStore, volume string, want ...Publication) {
	t.Helper()
	got, err := s.Live(t.Context(), backend.IDOf(volume))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(backend.ID{})); diff != "" {
		t.Errorf("publications of %s: %s", volume, diff)
	}
}

func TestRecordsSurviveARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "published")
	mounts := reality{"/a": nil, "/b": nil, "/c": nil}
	a, b, c := publicationOf("vol", "/a"), publicationOf("vol", "/b"), publicationOf("other", "/c")
	b.FSType, b.ReadOnly = "xfs", false
	first := openPublications(t, dir, mounts)
	put(t, first, b, a, c)
	for _, s := range []*PublicationStore{first, openPublications(t, dir, mounts)} {
		wantLive(t, s, "vol", a, b)
		wantLive(t, s, "other", c)
		if got, found := s.At("/b"); !found || got != b {
			t.Errorf("At(/b) = %+v, %v", got, found)
		}
	}
}

func TestRemove(t *testing.T) {
	dir, mounts := t.TempDir(), reality{"/a": nil}
	s := openPublications(t, dir, mounts)
	put(t, s, publicationOf("vol", "/a"))
	for range 2 {
		if err := s.Remove(backend.IDOf("vol"), "/a"); err != nil {
			t.Fatal(err)
		}
	}
	wantLive(t, s, "vol")
	wantLive(t, openPublications(t, dir, mounts), "vol")
}

// The machine was restarted (nothing is mounted), or one target was cleaned by
// hand while the driver was running.
func TestRecordsWithoutAMountAreDropped(t *testing.T) {
	dir, mounts := t.TempDir(), reality{"/a": nil, "/b": nil}
	s := openPublications(t, dir, mounts)
	put(t, s, publicationOf("vol", "/a"), publicationOf("vol", "/b"))
	delete(mounts, "/a")
	wantLive(t, s, "vol", publicationOf("vol", "/b"))
	if _, found := s.At("/a"); found {
		t.Error("the dropped record is still there")
	}
	delete(mounts, "/b")
	wantLive(t, openPublications(t, dir, mounts), "vol")
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("files left: %v", entries)
	}
}

func TestInDoubtAVolumeIsPublished(t *testing.T) {
	dir, mounts := t.TempDir(), reality{"/a": errors.New("stale handle")}
	put(t, openPublications(t, dir, mounts), publicationOf("vol", "/a"))
	wantLive(t, openPublications(t, dir, mounts), "vol", publicationOf("vol", "/a"))
}

func TestADamagedRecordBlocksItsOwnVolumeOnly(t *testing.T) {
	damages := map[string]string{
		"empty":            "",
		"cut off":          `{"format":1,"vol`,
		"newer":            `{"format":2,"volume":"vol","target":"/a"}`,
		"another target":   `{"format":1,"volume":"vol","target":"/z"}`,
		"another volume":   `{"format":1,"volume":"other","target":"/a"}`,
		"a path as volume": `{"format":1,"volume":"../..","target":"/a"}`,
	}
	for name, content := range damages {
		t.Run(name, func(t *testing.T) {
			dir, mounts := t.TempDir(), reality{"/a": nil, "/b": nil}
			put(t, openPublications(t, dir, mounts), publicationOf("vol", "/a"), publicationOf("other", "/b"))
			path := filepath.Join(dir, fileName(backend.IDOf("vol"), "/a"))
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			s := openPublications(t, dir, mounts)
			_, err := s.Live(t.Context(), backend.IDOf("vol"))
			if !fault.Internal.Is(err) || !strings.Contains(err.Error(), path) {
				t.Errorf("Live: %v, want an error that names the file", err)
			}
			wantLive(t, s, "other", publicationOf("other", "/b"))
			put(t, s, publicationOf("vol", "/a")) // publishing again repairs it
			wantLive(t, s, "vol", publicationOf("vol", "/a"))
		})
	}
}

func TestUnpublishingRepairsADamagedRecord(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName(backend.IDOf("vol"), "/a"))
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := openPublications(t, dir, reality{})
	if err := s.Remove(backend.IDOf("vol"), "/a"); err != nil {
		t.Fatal(err)
	}
	wantLive(t, s, "vol")
}

func TestRecoverSweepsHalfWrittenFilesAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{durable.TempPrefix + "123", "README"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	openPublications(t, dir, reality{})
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 || entries[0].Name() != "README" {
		t.Errorf("left %v, want README", entries)
	}
}

func TestSameArguments(t *testing.T) {
	base := publicationOf("vol", "/a")
	changes := map[string]struct {
		change func(*Publication)
		same   bool
	}{
		"target":   {func(r *Publication) { r.Target = "/b" }, true},
		"source":   {func(r *Publication) { r.Source = "/moved" }, true},
		"type":     {func(r *Publication) { r.Type = backend.Block }, false},
		"mode":     {func(r *Publication) { r.Mode = backend.SingleNodeWriter }, false},
		"fs type":  {func(r *Publication) { r.FSType = "xfs" }, false},
		"readonly": {func(r *Publication) { r.ReadOnly = false }, false},
	}
	for name, test := range changes {
		other := base
		test.change(&other)
		if got := base.SameArguments(other); got != test.same {
			t.Errorf("other %s: same = %v, want %v", name, got, test.same)
		}
	}
}

func TestAccess(t *testing.T) {
	tests := []struct {
		mode     backend.AccessMode
		readOnly bool
		want     mount.Access
	}{
		{backend.SingleNodeWriter, false, mount.ReadWrite},
		{backend.SingleNodeWriter, true, mount.ReadOnly},
		{backend.MultiNodeMultiWriter, false, mount.ReadWrite},
		{backend.MultiNodeReaderOnly, false, mount.ReadOnly},
		{backend.SingleNodeReaderOnly, false, mount.ReadOnly},
	}
	for _, test := range tests {
		if got := (Publication{Mode: test.mode, ReadOnly: test.readOnly}).Access(); got != test.want {
			t.Errorf("%s readonly=%v: %v, want %v", test.mode, test.readOnly, got, test.want)
		}
	}
}
