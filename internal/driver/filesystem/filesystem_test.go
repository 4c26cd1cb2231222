package filesystem

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/purser-csi/purser/internal/driver/fault"
	"golang.org/x/sys/unix"
)

func blank(t *testing.T, bytes int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, bytes); err != nil {
		t.Fatal(err)
	}
	return path
}

func mayMake(t *testing.T, fs Type) {
	t.Helper()
	if err := Present(fs); err != nil {
		t.Skip("needs the program that makes " + string(fs) + ": " + err.Error())
	}
}

func eachType(t *testing.T, test func(t *testing.T, fs Type)) {
	for _, fs := range Types {
		t.Run(string(fs), func(t *testing.T) {
			mayMake(t, fs)
			test(t, fs)
		})
	}
}

// mkfs accepts a device of the documented minimum size.
func TestTheMinimumCanBeMade(t *testing.T) {
	eachType(t, func(t *testing.T, fs Type) {
		path := blank(t, fs.Minimum())
		if err := Make(t.Context(), fs, path, Sparse); err != nil {
			t.Fatal(err)
		}
		c, err := Probe(path)
		if err != nil || c.Type != fs {
			t.Fatalf("Probe = %+v, %v", c, err)
		}
		if c.Bytes > fs.Minimum() || c.Bytes < fs.Minimum()*9/10 {
			t.Errorf("%d bytes of %d", c.Bytes, fs.Minimum())
		}
		if c.Faulty || c.BlockBytes < 512 {
			t.Errorf("%+v", c)
		}
	})
}

func TestAMissingSizeIsSaidByMkfs(t *testing.T) {
	mayMake(t, XFS)
	err := Make(t.Context(), XFS, blank(t, 16<<20), Sparse)
	if err == nil || !strings.Contains(err.Error(), "300MB") {
		t.Errorf("mkfs.xfs of 16 MiB: %v, want what it printed", err)
	}
}

func TestProbeOfWhatIsNoFilesystem(t *testing.T) {
	for name, content := range map[string][]byte{
		"empty": nil, "short": []byte("XFS"), "zeros": make([]byte, 1<<20), "text": []byte(strings.Repeat("hello", 1<<15)),
	} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := Probe(path); err != nil || c != (Content{}) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

func FuzzRecognise(f *testing.F) {
	f.Add([]byte("XFSB\x00\x00\x10\x00"))
	f.Add(append(make([]byte, extAt+extMagicAt), extMagic...))
	f.Add(append(make([]byte, btrfsAt+btrfsMagicAt), btrfsMagic...))
	f.Fuzz(func(_ *testing.T, content []byte) {
		head := make([]byte, probed)
		copy(head, content)
		recognise(head)
	})
}

func TestANewIdentity(t *testing.T) {
	at := map[Type]int{Ext4: extAt + 0x68, Btrfs: btrfsAt + 0x20}
	for fs, offset := range at {
		t.Run(string(fs), func(t *testing.T) {
			mayMake(t, fs)
			path := blank(t, 128<<20)
			if err := Make(t.Context(), fs, path, Sparse); err != nil {
				t.Fatal(err)
			}
			uuid := func() string {
				content, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				return string(content[offset : offset+16])
			}
			before := uuid()
			c, err := Probe(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := NewIdentity(t.Context(), c, path); err != nil {
				t.Fatal(err)
			}
			if uuid() == before {
				t.Error("the uuid is still the same")
			}
		})
	}
}

func TestParse(t *testing.T) {
	for name, want := range map[string]Type{"": Nothing, "ext4": Ext4, "xfs": XFS, "btrfs": Btrfs} {
		if got, err := Parse(name); err != nil || got != want {
			t.Errorf("Parse(%q) = %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"ext3", "EXT4", "../ext4", "ntfs", strings.Repeat("x", 1000)} {
		_, err := Parse(name)
		if !fault.Invalid.Is(err) || !strings.Contains(err.Error(), "[ext4 xfs btrfs]") || len(err.Error()) > 300 {
			t.Errorf("Parse(%.20q): %v, want an invalid argument that lists the types", name, err)
		}
	}
}

func TestMountArguments(t *testing.T) {
	tests := []struct {
		why   string
		m     Mounting
		flags uintptr
		data  string
	}{
		{"ext4", Mounting{Type: Ext4, Discard: true}, 0, "errors=remount-ro,discard"},
		{"no discard", Mounting{Type: Ext4}, 0, "errors=remount-ro"},
		{"xfs clones share a uuid", Mounting{Type: XFS}, 0, "nouuid"},
		{"btrfs", Mounting{Type: Btrfs, Discard: true}, 0, "discard=async"},
		{"flags and data", Mounting{Type: XFS, Options: []string{"noatime", "ro,largeio", "defaults"}}, unix.MS_NOATIME | unix.MS_RDONLY, "nouuid,largeio"},
		{"the last one wins", Mounting{Type: Btrfs, Options: []string{"ro", "rw", "nodev", "dev", "nosuid"}}, unix.MS_NOSUID, ""},
		{"the user's come after ours", Mounting{Type: Ext4, Options: []string{"errors=continue"}}, 0, "errors=remount-ro,errors=continue"},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			flags, data := test.m.arguments()
			if flags != test.flags || data != test.data {
				t.Errorf("flags %#x, data %q, want %#x, %q", flags, data, test.flags, test.data)
			}
		})
	}
}

// The flags may be sensitive.
func TestOptionsStayOutOfErrors(t *testing.T) {
	for _, option := range []string{"loop=/dev/secret", "remount", "noatime,device=/dev/secret"} {
		err := CheckOptions(Ext4, []string{"ro", option})
		if !fault.Invalid.Is(err) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want an invalid argument that does not repeat it", option, err)
		}
	}
	if err := CheckOptions(Ext4, []string{"noatime", "discard", "data=ordered"}); err != nil {
		t.Error(err)
	}
	err := Mount(Mounting{Type: Ext4, Device: "/dev/null", Path: t.TempDir(), Options: []string{"password=secret"}})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("mount: %v, want an error that does not repeat the options", err)
	}
}

// A fake mkfs.btrfs that fails several times with the error of the race.
func TestMakeIsRepeatedWhenARaceIsLost(t *testing.T) {
	for _, test := range []struct {
		why, says string
		times     int
		want      bool
	}{
		{"a device went away", "ERROR: cannot check mount status of x: No such device or address", 3, true},
		{"one never answers", "ERROR: cannot check mount status of x: Transport endpoint is not connected", 1000, false},
		{"another reason", "ERROR: too small", 1, false},
	} {
		dir := t.TempDir()
		count := filepath.Join(dir, "count")
		script := fmt.Sprintf("#!/bin/sh\necho >>%s\n[ $(wc -l <%s) -gt %d ] || { echo '%s'; exit 1; }\n", count, count, test.times, test.says)
		if err := os.WriteFile(filepath.Join(dir, "mkfs.btrfs"), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		err := Make(t.Context(), Btrfs, "x", Sparse)
		if (err == nil) != test.want || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", test.why, err)
		}
		if tries, _ := os.ReadFile(count); test.why == "another reason" && len(tries) != 1 {
			t.Errorf("%s: tried %d times", test.why, len(tries))
		}
	}
}

func TestMakeArguments(t *testing.T) {
	want := []string{"-q", "-F", "-m0", "-O", "metadata_csum_seed", "-E", "lazy_journal_init=1,lazy_itable_init=1,nodiscard", "/i"}
	if diff := cmp.Diff(want, makeArguments(Ext4, "/i", Allocated)); diff != "" {
		t.Errorf("mkfs would give the space of a thick image back:\n%s", diff)
	}
}

func TestAProgramThatIsNotThere(t *testing.T) {
	err := run(t.Context(), "some-package", "no-such-mkfs")
	if !fault.Unready.Is(err) || !strings.Contains(err.Error(), "install some-package") {
		t.Errorf("%v, want it to name the package", err)
	}
}

// Nothing of a user's is repaired without asking.
func TestIsAboutResizeInode(t *testing.T) {
	const bad = "Resize inode not valid.  Recreate? no\n\nPass 1: Checking inodes, blocks, and sizes\n"
	for name, test := range map[string]struct {
		questions string
		want      bool
	}{
		"in order":           {"Pass 1: Checking inodes, blocks, and sizes\n", false},
		"the resize inode":   {bad + "img: 11/1024 files (9.1% non-contiguous), 1330/6144 blocks\n", true},
		"and its size":       {bad + "Inode 7, i_blocks is 514, should be 2.  Fix? no\n\nWARNING: Filesystem still has errors\n", true},
		"an inode of a user": {bad + "Inode 71, i_blocks is 514, should be 2.  Fix? no\n", false},
		"a lost file":        {bad + "Unattached inode 12\nConnect to /lost+found? no\n", false},
	} {
		if got := isAboutResizeInode(test.questions); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
