package driver

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/purser-csi/purser/internal/driver/backend"
)

func TestCompare(t *testing.T) {
	one := backend.Capability{Type: backend.Mount, Mode: backend.SingleNodeWriter}
	two := backend.Capability{Type: backend.Mount, Mode: backend.MultiNodeReaderOnly}
	have := backend.Volume{
		Name: "vol", CapacityBytes: 10, Capabilities: []backend.Capability{one, two}, Parameters: map[string]string{"a": "1"},
	}
	want := func(change func(*backend.Request)) backend.Request {
		r := backend.Request{
			Name: "vol", Size: backend.Range{Required: 10},
			Capabilities: []backend.Capability{one, two}, Parameters: map[string]string{"a": "1"},
		}
		change(&r)
		return r
	}
	tests := []struct {
		name   string
		change func(*backend.Request)
		want   []string
	}{
		{"the same", func(*backend.Request) {}, nil},
		{"another order", func(r *backend.Request) { r.Capabilities = []backend.Capability{two, one, two} }, nil},
		{"other mount flags", func(r *backend.Request) { r.Capabilities[0].MountFlags = []string{"x"} }, nil},
		{"no size", func(r *backend.Request) { r.Size = backend.Range{} }, nil},
		{"smaller is enough", func(r *backend.Request) { r.Size = backend.Range{Required: 5} }, nil},
		{"larger", func(r *backend.Request) { r.Size = backend.Range{Required: 11} }, []string{"it has 10 bytes, at least 11 wanted"}},
		{"too large", func(r *backend.Request) { r.Size = backend.Range{Limit: 9} }, []string{"it has 10 bytes, at most 9 wanted"}},
		{"fewer capabilities", func(r *backend.Request) { r.Capabilities = []backend.Capability{one} }, []string{
			`it has the capabilities ["mount MULTI_NODE_READER_ONLY" "mount SINGLE_NODE_WRITER"], ["mount SINGLE_NODE_WRITER"] wanted`,
		}},
		{"another filesystem", func(r *backend.Request) {
			r.Capabilities = []backend.Capability{one, {Type: backend.Mount, Mode: two.Mode, FSType: "xfs"}}
		}, []string{
			`it has the capabilities ["mount MULTI_NODE_READER_ONLY" "mount SINGLE_NODE_WRITER"], ["mount SINGLE_NODE_WRITER" "mount(xfs) MULTI_NODE_READER_ONLY"] wanted`,
		}},
		{"no parameters", func(r *backend.Request) { r.Parameters = nil }, []string{`it was made with a="1", no parameters wanted`}},
		{"everything", func(r *backend.Request) { *r = backend.Request{Name: "b", Size: backend.Range{Required: 1, Limit: 2}} }, []string{
			`its name is "vol"`, "it has 10 bytes, 1 to 2 wanted",
			`it has the capabilities ["mount MULTI_NODE_READER_ONLY" "mount SINGLE_NODE_WRITER"], [] wanted`,
			`it was made with a="1", no parameters wanted`,
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			request := want(test.change)
			if diff := cmp.Diff(test.want, compare(have, request)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// All pages together are the list, whatever the size of the page.
func TestPagesCoverTheList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.StringMatching(`[a-c][a-c.-]{0,3}`), rapid.ID).Draw(t, "names")
		slices.Sort(names)
		ids := make([]backend.ID, 0, len(names))
		for _, name := range names {
			ids = append(ids, backend.IDOf(name))
		}
		size := rapid.Int32Range(0, 7).Draw(t, "size")
		var got []string
		for token, pages := "", 0; ; pages++ {
			p, err := parsePage(token, size)
			if err != nil || pages > len(names) {
				t.Fatalf("page %d with token %q: %v", pages, token, err)
			}
			part, next := p.cut(ids)
			if len(part) == 0 && len(ids) > 0 {
				t.Fatalf("page %d is empty: the token before promised more", pages)
			}
			for _, id := range part {
				got = append(got, id.String())
			}
			if token = next; token == "" {
				break
			}
		}
		if !slices.Equal(got, names) {
			t.Fatalf("pages of %d give %q, want %q", size, got, names)
		}
	})
}

func TestParseNameFollowsTheListOfBannedCharacters(t *testing.T) {
	banned := func(r rune) bool { // U+0000-U+0008, U+000B, U+000C, U+000E-U+001F, U+007F-U+009F
		return r <= 0x08 || r == 0x0b || r == 0x0c || (r >= 0x0e && r <= 0x1f) || (r >= 0x7f && r <= 0x9f)
	}
	for r := range rune(0x180) {
		_, err := parseName("a" + string(r))
		if (err != nil) != banned(r) {
			t.Errorf("U+%04X: %v", r, err)
		}
	}
}

func TestParseParametersDropsTheProvisionersKeys(t *testing.T) {
	got, err := parseParameters("parameters", map[string]string{
		"csi.storage.k8s.io/pv/name": "pv", "purser/label/app": "log", "csi.storage.k8s.io.example/a": "1", "b": "2",
	})
	want := map[string]string{"csi.storage.k8s.io.example/a": "1", "b": "2"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if got, err := parseParameters("parameters", map[string]string{"b": strings.Repeat("x", maxMap)}); err == nil {
		t.Errorf("%d bytes were accepted", len(got["b"]))
	}
}
