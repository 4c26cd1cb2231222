package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTail(t *testing.T) {
	long := strings.Repeat("x", 2*lineBytes)
	tests := map[string]struct {
		log  string
		want []string
	}{
		"empty":                {"", nil},
		"fewer than asked":     {"a\nb\n", []string{"a", "b"}},
		"the last ones":        {"a\nb\nc\nd\n", []string{"b", "c", "d"}},
		"blank lines say less": {"a\n\n  \nb\n", []string{"a", "b"}},
		"no newline at end":    {"a\nb", []string{"a", "b"}},
		"long line":            {long + "\n", []string{long[:lineBytes] + "..."}},
		"cut between runes":    {strings.Repeat("é", lineBytes) + "x\n", []string{strings.Repeat("é", lineBytes/2) + "..."}},
		"only the end is read": {strings.Repeat("y\n", tailBytes) + "z\n", []string{"y", "y", "z"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(test.log), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := Tail(path, 3)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPreviousLogIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for _, text := range []string{"oldest", "old", "new"} {
		f, err := openLog(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{path: "new", path + ".1": "old"} {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}
