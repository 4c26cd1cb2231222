package backend

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/driver/fault"
	"pgregory.net/rapid"
)

func TestIDOf(t *testing.T) {
	hash := func(c string) string { return hashedPrefix + strings.Repeat(c, 64) }
	tests := []struct {
		why, name, want string
	}{
		{"a provisioner's name stays readable", "pvc-4f1a7c9e", "pvc-4f1a7c9e"},
		{"dots inside are harmless", "a..b", "a..b"},
		{"63 bytes still fit", strings.Repeat("x", 63), strings.Repeat("x", 63)},
		{"64 do not", strings.Repeat("x", 64), "sha256-"},
		{"a path", "../../etc/passwd", "sha256-"},
		{"the parent", "..", "sha256-"},
		{"hidden", ".hidden", "sha256-"},
		{"upper case, for filesystems that fold it", "Volume", "sha256-"},
		{"spaces and umlauts", "ein Gefäß", "sha256-"},
		{"the reserved prefix", "sha256-abc", "sha256-"},
		{"the id of another name", hash("a"), "sha256-"},
		{"a newline at the end", "vol\n", "sha256-"},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			got := IDOf(test.name).String()
			if got != test.want && (test.want != hashedPrefix || !hashedID.MatchString(got)) {
				t.Errorf("IDOf(%q) = %s, want %s", test.name, got, test.want)
			}
			if got == test.name && test.want == hashedPrefix {
				t.Errorf("IDOf(%q) is the name itself", test.name)
			}
		})
	}
}

func TestParseIDRefusesWhatNoNameMakes(t *testing.T) {
	for _, text := range []string{
		"", ".", "..", "/", "a/b", "../a", "A", "-a", "a\x00", "a\n", "sha256-", "sha256-abc",
		"sha256-" + strings.Repeat("A", 64), "sha256-" + strings.Repeat("a", 64) + "/..", strings.Repeat("x", 64), strings.Repeat("x", 1<<20),
	} {
		_, err := ParseID(text)
		if !fault.NotFound.Is(err) {
			t.Errorf("ParseID(%.40q): %v, want not found", text, err)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("the error for %d bytes has %d bytes", len(text), len(err.Error()))
		}
	}
}

// nearIDs draws strings that come close to an id: random Unicode alone would
// hardly ever pass the check.
func nearIDs() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`[a-z0-9./-]{0,70}`),
		rapid.StringMatching(`(\.\./)*[a-z0-9]{1,10}(/\.\.)*`),
		rapid.StringMatching(`sha256-[0-9a-f]{62,66}`),
	)
}

func TestEveryIDIsOnePathComponent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := nearIDs().Draw(t, "text")
		id, err := ParseID(text)
		if err != nil {
			id = IDOf(text)
		}
		path := filepath.Join("/state/volumes", id.String())
		if filepath.Dir(path) != "/state/volumes" || filepath.Base(path) != id.String() {
			t.Fatalf("%q leads to %s", text, path)
		}
		if len(id.String()) > 128 {
			t.Fatalf("%q has %d bytes, CSI allows 128", id, len(id.String()))
		}
	})
}

func TestEveryIDParsesToItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := IDOf(nearIDs().Draw(t, "name"))
		if again, err := ParseID(id.String()); err != nil || again != id {
			t.Fatalf("ParseID(%s) = %s, %v", id, again, err)
		}
	})
}

func TestTwoNamesNeverShareAnID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := nearIDs().Draw(t, "first")
		// The second name is random, or the first one's id: the most
		// promising way to collide on purpose.
		second := rapid.OneOf(nearIDs(), rapid.Just(IDOf(first).String())).Draw(t, "second")
		if first != second && IDOf(first) == IDOf(second) {
			t.Fatalf("%q and %q are both %s", first, second, IDOf(first))
		}
	})
}
