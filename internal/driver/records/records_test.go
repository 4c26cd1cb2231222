package records

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/durable"
)

func TestEachVolume(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	folder := Folder{Dir: dir, What: "test records"}
	if err := folder.EachVolume(nil); err != nil {
		t.Fatalf("a folder that is not there: %v", err)
	}
	for _, name := range []string{"b.json", "a.json", durable.TempPrefix + "1", durable.TempPrefix + "2.json", "README"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var read []string
	err := folder.EachVolume(func(volume backend.ID, path string) error {
		if path != filepath.Join(dir, Name(volume)) {
			t.Errorf("%s is read for volume %s", path, volume)
		}
		read = append(read, volume.String())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", durable.TempPrefix + "2"}; !slices.Equal(read, want) {
		t.Errorf("read %v, want %v", read, want)
	}
	if _, err := os.Stat(filepath.Join(dir, durable.TempPrefix+"1")); !os.IsNotExist(err) {
		t.Errorf("the file of a killed write is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "README")); err != nil {
		t.Errorf("a file that is no record is gone: %v", err)
	}
}
