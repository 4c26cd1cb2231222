package records

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/durable"
	"github.com/purser-csi/purser/internal/driver/fault"
)

func recordOf(name string) Staging {
	return Staging{Volume: backend.IDOf(name), Path: "/staging/" + name, Type: backend.Mount, Mode: backend.SingleNodeWriter, FSType: "xfs"}
}

// recovered returns the store of the next process.
func recovered(t *testing.T, dir string) *StagingStore {
	t.Helper()
	s := NewStagingStore(dir, nil)
	if err := s.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRecordsOutliveTheProgram(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stagings")
	s := recovered(t, dir)
	first, second := recordOf("first"), recordOf("second")
	for _, r := range []Staging{first, second} {
		if err := s.Put(r); err != nil {
			t.Fatal(err)
		}
	}
	second.Type, second.FSType = backend.Block, ""
	if err := s.Put(second); err != nil { // replaced
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Remove(first.Volume); err != nil {
			t.Fatal(err)
		}
	}
	s = recovered(t, dir)
	if got, found, err := s.Of(second.Volume); err != nil || !found || got != second {
		t.Errorf("second: %+v, %v, %v", got, found, err)
	}
	if got, found, err := s.Of(first.Volume); err != nil || found {
		t.Errorf("first: %+v, %v, %v", got, found, err)
	}
}

// A damaged record is one of its volume alone, which counts as staged until
// a caller has unstaged it.
func TestADamagedRecord(t *testing.T) {
	for why, content := range map[string]string{
		"half":       `{"format":1,"volu`,
		"newer":      `{"format":2,"volume":"hurt","path":"/staging/hurt"}`,
		"another's":  `{"format":1,"volume":"sound","path":"/staging/hurt"}`,
		"no path":    `{"format":1,"volume":"hurt"}`,
		"a way out":  `{"format":1,"volume":"../hurt","path":"/staging/hurt"}`,
		"no content": ``,
	} {
		t.Run(why, func(t *testing.T) {
			dir := t.TempDir()
			s := recovered(t, dir)
			sound, hurt := recordOf("sound"), backend.IDOf("hurt")
			if err := s.Put(sound); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, nameOf(hurt)), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			s = recovered(t, dir)
			if _, _, err := s.Of(hurt); !fault.Internal.Is(err) || !strings.Contains(err.Error(), "unstage the volume") {
				t.Errorf("the damaged one: %v", err)
			}
			if got, found, err := s.Of(sound.Volume); err != nil || !found || got != sound {
				t.Errorf("the other one: %+v, %v, %v", got, found, err)
			}
			if err := s.Remove(hurt); err != nil {
				t.Fatal(err)
			}
			if _, found, err := recovered(t, dir).Of(hurt); err != nil || found {
				t.Errorf("after it was unstaged: %v, %v", found, err)
			}
		})
	}
}

// The temporary file of a killed write is removed; a volume may have such a name.
func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	alike := recordOf(durable.TempPrefix + "1")
	if err := recovered(t, dir).Put(alike); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(dir, durable.TempPrefix+"2")
	if err := os.WriteFile(half, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, found, err := recovered(t, dir).Of(alike.Volume); err != nil || !found {
		t.Errorf("%v, %v", found, err)
	}
	if _, err := os.Stat(half); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", half, err)
	}
}
