package httpsource

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/purser-csi/purser/internal/populate"
)

// The fields of an HTTPSource become arguments, and one that is refused is named with its value and what is
// accepted.
func TestPopulator(t *testing.T) {
	sum := strings.Repeat("aB", 32)
	for name, tc := range map[string]struct {
		spec  map[string]any
		block bool
		args  []string // among them
		want  string   // of the error
	}{
		"a file": {
			map[string]any{"url": "https://h/f", "sha256": sum},
			false,
			[]string{"--sha256=" + strings.ToLower(sum), "--file-name=disk.img", "--format=raw", "--max-bytes=9"},
			"",
		},
		"a device":          {map[string]any{"url": "http://h/f"}, true, []string{"--block=true"}, ""},
		"an archive":        {map[string]any{"url": "https://h/f", "format": "tar"}, false, []string{"--format=tar"}, ""},
		"an image":          {map[string]any{"url": "oci://h/a/b:v1"}, false, []string{"--format=tar.gz"}, ""},
		"an image's digest": {map[string]any{"url": "oci://h/a@sha256:" + sum}, false, nil, ""},
		"headers": {
			map[string]any{"url": "https://h/f", "headersSecret": "s"},
			false,
			[]string{"--secret-dir=/populate/secret", "--source-namespace=shop"},
			"",
		},
		"no URL":           {map[string]any{}, false, nil, `spec.url: "" is refused`},
		"another scheme":   {map[string]any{"url": "file:///etc/passwd"}, false, nil, "spec.url"},
		"ftp":              {map[string]any{"url": "ftp://h/f"}, false, nil, "begin it with https://"},
		"a password":       {map[string]any{"url": "https://u:hidden@h/f"}, false, nil, "leave user and password out"},
		"a fragment":       {map[string]any{"url": "https://h/f#x"}, false, nil, "leave the fragment"},
		"no image":         {map[string]any{"url": "oci://h/A"}, false, nil, "oci://HOST/REPOSITORY:TAG"},
		"an image's query": {map[string]any{"url": "oci://h/a?b"}, false, nil, "oci://HOST/REPOSITORY:TAG"},
		"a short checksum": {map[string]any{"url": "https://h/f", "sha256": "ab"}, false, nil, `spec.sha256: "ab"`},
		"another format":   {map[string]any{"url": "https://h/f", "format": "zip"}, false, nil, "raw, tar, tar.gz"},
		"a device's tar":   {map[string]any{"url": "https://h/f", "format": "tar"}, true, nil, "volumeMode Block"},
		"a raw image":      {map[string]any{"url": "oci://h/a", "format": "raw"}, false, nil, "spec.format"},
		"a path":           {map[string]any{"url": "https://h/f", "fileName": "a/b"}, false, nil, `spec.fileName: "a/b"`},
		"the state":        {map[string]any{"url": "https://h/f", "fileName": stateFile}, false, nil, "spec.fileName"},
		"the next state":   {map[string]any{"url": "https://h/f", "fileName": stateFile + ".new"}, false, nil, "spec.fileName"},
		"no name":          {map[string]any{"url": "https://h/f", "headersSecret": "../x"}, false, nil, "spec.headersSecret"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &unstructured.Unstructured{Object: map[string]any{"spec": tc.spec}}
			o.SetNamespace("shop")
			got, err := Populator(false).Pod(o, populate.Target{Path: "/t", Block: tc.block, Size: 9})
			if tc.want == "" {
				if err != nil ||
					slices.ContainsFunc(tc.args, func(a string) bool { return !slices.Contains(got.Args, a) }) {
					t.Errorf("%v, %q", err, got.Args)
				}
				return
			}
			invalid, is := errors.AsType[populate.InvalidError](err)
			if said := invalid.Problem + " " + invalid.Fix; !is || !strings.Contains(said, tc.want) ||
				strings.Contains(said, "hidden") {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}
