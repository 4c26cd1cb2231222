package mount

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestMountsBelow(t *testing.T) {
	const table = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:5 / /proc rw - proc proc rw
40 22 254:0 /a /plane rw - ext4 /dev/vda rw
41 40 254:0 /b /plane/pods/a rw shared:1 master:2 - ext4 /dev/vda rw
42 41 254:0 /c /plane/pods/a/deep/er rw - ext4 /dev/vda rw
43 41 0:44 / /plane/pods/a rw - tmpfs tmpfs rw
44 40 254:0 /d /plane/with\040space\011tab\012line\134back rw - ext4 /dev/vda rw
45 22 254:0 /e /plane2/pods rw - ext4 /dev/vda rw
46 22 254:0 /f /other/plane/pods rw - ext4 /dev/vda rw
`
	tests := []struct {
		name, root string
		want       []string
	}{
		{"deepest first, stacked ones once each", "/plane", []string{
			"/plane/pods/a/deep/er", "/plane/pods/a", "/plane/pods/a",
			"/plane/with space\ttab\nline\\back",
		}},
		{"the folder itself does not count", "/plane/pods/a", []string{"/plane/pods/a/deep/er"}},
		{"a name is not a prefix", "/plane2", []string{"/plane2/pods"}},
		{"nothing", "/plane/pods/b", []string{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := mountsBelow(strings.NewReader(table), test.root)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMountsBelowRefusesWhatIsNoMountTable(t *testing.T) {
	for _, table := range []string{"gibberish\n", "1 2 3 4 5 6 7 8 9 10 11\n", `1 2 0:1 / /a\9 rw - t s rw` + "\n"} {
		if paths, err := mountsBelow(strings.NewReader(table), "/a"); err == nil {
			t.Errorf("%q was read as %q", table, paths)
		}
	}
}

func FuzzMountsBelow(f *testing.F) {
	f.Add(`41 40 254:0 /b /plane/pods\040a rw shared:1 - ext4 /dev/vda rw`, "/plane")
	f.Add(`41 40 254:0 /b /plane2 rw - ext4 /dev/vda rw`, "/plane")
	f.Fuzz(func(t *testing.T, table, root string) {
		paths, _ := mountsBelow(strings.NewReader(table), root)
		for _, path := range paths {
			if !strings.HasPrefix(path, root+"/") {
				t.Errorf("%q is not below %q", path, root)
			}
		}
	})
}

func TestBelowRefusesTheRoot(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/", link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/", "/.", "//", "", "relative", link} {
		if paths, err := Below(dir); err == nil {
			t.Errorf("Below(%q) = %q, want an error", dir, paths)
		}
		if removed, err := CleanBelow(dir); err == nil {
			t.Errorf("CleanBelow(%q) removed %q, want an error", dir, removed)
		}
	}
}

func TestCleanBelowOfNothing(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "missing")} {
		if removed, err := CleanBelow(path); err != nil || len(removed) > 0 {
			t.Errorf("CleanBelow(%s) = %q, %v", path, removed, err)
		}
	}
}

// The tree has every difficulty at once: nested mounts, a name with a space,
// a mount hidden under a younger one, a mount in use, and a neighbour outside.
func TestCleanBelow(t *testing.T) {
	m, dir := mayBind(t), sandbox(t)
	from := source(t, dir)
	inside, outside := filepath.Join(dir, "inside"), filepath.Join(dir, "insider")
	hidden, cover := filepath.Join(inside, "h", "hidden"), filepath.Join(inside, "h")
	spaced, busy := filepath.Join(inside, "with space"), filepath.Join(inside, "busy")
	mkdir(t, cover)
	mkdir(t, outside)
	for _, target := range []string{hidden, spaced, busy, filepath.Join(outside, "neighbour")} {
		if err := m.Bind(from, target, ReadWrite); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount(from, cover, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	user, err := os.Open(filepath.Join(busy, "hello"))
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()

	removed, err := CleanBelow(inside)
	if err != nil {
		t.Fatal(err)
	}
	if len(removed) != 4 {
		t.Errorf("removed %q, want 4 mounts", removed)
	}
	if left, err := Below(inside); err != nil || len(left) > 0 {
		t.Errorf("left %q, %v", left, err)
	}
	wantBound(t, m, from, filepath.Join(outside, "neighbour"), true)
	wantPresent(t, filepath.Join(from, "hello"))
}

// A folder is often reached through a link (/var/run is one).
func TestCleanBelowFollowsALinkToTheFolder(t *testing.T) {
	m, dir := mayBind(t), sandbox(t)
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	mkdir(t, real)
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	if err := m.Bind(source(t, dir), filepath.Join(real, "target"), ReadWrite); err != nil {
		t.Fatal(err)
	}
	if removed, err := CleanBelow(link); err != nil || len(removed) != 1 {
		t.Errorf("CleanBelow(link) = %q, %v, want one mount", removed, err)
	}
}
