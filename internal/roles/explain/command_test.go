package explain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/purser-csi/purser/internal/explain/inventory"
	core "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
)

// files of a dump: a claim that waits for a class, and one that is bound.
const (
	stuckClaim = `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, namespace: shop, creationTimestamp: "2026-01-01T00:00:00Z"},
  spec: {storageClassName: nope, accessModes: [ReadWriteOnce]}, status: {phase: Pending}}`
	boundClaim = `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: b, namespace: shop, uid: u, creationTimestamp: "2026-01-01T00:00:00Z",
  annotations: {pv.kubernetes.io/bind-completed: "yes"}},
  spec: {storageClassName: "", accessModes: [ReadWriteOnce], volumeName: pv}, status: {phase: Bound}}`
	otherClass = `{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: other}, provisioner: d.example.com}`
	itsVolume  = `{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv, creationTimestamp: "2026-01-01T00:00:00Z"},
  spec: {claimRef: {namespace: shop, name: b, uid: u}}, status: {phase: Bound}}`
)

func run(t *testing.T, args ...string) (out string, code int, err error) {
	t.Helper()
	var text bytes.Buffer
	dump := strings.Join([]string{stuckClaim, boundClaim, itsVolume, otherClass}, "\n---\n")
	for _, c := range New(Streams{In: strings.NewReader(dump), Out: &text}) {
		if c.Name() == args[0] {
			c.SetArgs(args[1:])
			c.SilenceUsage, c.SilenceErrors = true, true
			err = c.ExecuteContext(t.Context())
		}
	}
	if answer, ok := err.(ExitError); ok { //nolint:errorlint // as the command returns it
		code = answer.ExitCode()
	}
	return text.String(), code, err
}

// The exit codes are 0 for a healthy object, 1 for a stuck one, and 2 for an unknown state. An
// error of the command itself is not 1.
func TestExitCodes(t *testing.T) {
	for _, tc := range []struct {
		args  string
		code  int
		told  bool // the answer is all there is to print
		words string
	}{
		{"explain pvc/b -n shop --from -", 0, true, "well"},
		{"explain pvc/c -n shop --from -", 1, true, "stuck"},
		{"explain --from -", 1, true, "ClassMissing"},
		{"explain pvc/absent -n shop --from -", 2, true, "cannot tell"},
		{"tree pvc/absent -n shop --from -", 2, true, "absent"},
		{"tree pvc/c -n shop --from -", 0, true, "Pending"},
		{"explain pvc/c --from /nowhere", 2, false, ""},
		{"explain ship/c --from -", 2, false, ""},
		{"explain pvc/c --from - -o xml", 2, false, ""},
		{"explain pvc/c --from - --now yesterday", 2, false, ""},
		{"explain pvc/c --now 2026-01-31T12:00:00Z", 2, false, ""},
		{"explain pvc/c --from - --watch", 2, false, ""},
		{"tree ship/c --from -", 2, false, ""},
	} {
		out, code, err := run(t, strings.Fields(tc.args)...)
		answer, _ := err.(ExitError) //nolint:errorlint // as the command returns it
		if code != tc.code || answer.IsTold() != tc.told || !strings.Contains(out, tc.words) {
			t.Errorf("%s: exit code %d, %v, %q; want %d, %q", tc.args, code, err, out, tc.code, tc.words)
		}
	}
}

// --now is the time of the answer, and what ages are counted from.
func TestNow(t *testing.T) {
	out, _, _ := run(t, "explain", "pvc/c", "-n", "shop", "--from", "-", "--now", "2026-01-03T00:00:00Z", "-o", "json")
	var answer Answer
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatal(err)
	}
	if !answer.Time.Equal(time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC)) || !strings.Contains(answer.Reports[0].Summary, "2d") {
		t.Errorf("time %s, %q", answer.Time, answer.Reports[0].Summary)
	}
}

// The schema that docs/explain.md documents has each field of the answer.
func TestSchemaIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "explain.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[reflect.Type]bool{}
	var look func(reflect.Type)
	look = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice:
			look(of.Elem())
		case reflect.Struct:
			if seen[of] || of == reflect.TypeFor[time.Time]() {
				return
			}
			seen[of] = true
			for field := range of.Fields() {
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				if field.IsExported() && !field.Anonymous && !strings.Contains(string(page), "`"+name+"`") {
					t.Errorf("docs/explain.md does not name the field %s of %s", name, of)
				}
				look(field.Type)
			}
		default:
		}
	}
	look(reflect.TypeFor[Answer]())
	look(reflect.TypeFor[Tree]())
	for _, schema := range []string{schemaExplain, schemaTree} {
		if !strings.Contains(string(page), "`"+schema+"`") {
			t.Errorf("docs/explain.md does not name %s", schema)
		}
	}
}

// A form of a version keeps its fields: each that version 1 had is there. A field that is added is added
// here.
func TestSchemaIsStable(t *testing.T) {
	want := map[reflect.Type]string{
		reflect.TypeFor[Answer]():        "schema time reports groups refused unread calls unknown",
		reflect.TypeFor[core.Report]():   "object state summary next findings refused users unread",
		reflect.TypeFor[core.Use]():      "object waits",
		reflect.TypeFor[core.Finding]():  "reason object waitsFor decision words event cause evidence fix actor until since chain",
		reflect.TypeFor[core.Group]():    "reason cause finding objects oldest normal",
		reflect.TypeFor[core.Evidence](): "object field value wanted",
		reflect.TypeFor[core.Step]():     "text command risk",
		reflect.TypeFor[core.Link]():     "object waitsFor",
		reflect.TypeFor[core.Ref]():      "kind namespace name",
		reflect.TypeFor[core.Branch]():   "object state age wrong children",
		reflect.TypeFor[Tree]():          "schema",
		reflect.TypeFor[life.Call]():     "from to role name code volume object",
	}
	for of, fields := range want {
		var got []string
		for field := range of.Fields() {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, strings.Fields(fields)) {
			t.Errorf("%s has the fields %q, and its version %q", of, got, fields)
		}
	}
}

// dump --rbac is a role with one rule per kind, for list alone.
func TestClusterRole(t *testing.T) {
	out, code, err := run(t, "dump", "--rbac")
	var role struct {
		Rules []struct{ APIGroups, Resources, Verbs []string }
	}
	if err := yaml.Unmarshal([]byte(out), &role); err != nil || code != 0 {
		t.Fatal(err)
	}
	if err != nil || len(role.Rules) != len(inventory.Rules()) {
		t.Fatalf("%v, %d rules: %s", err, len(role.Rules), out)
	}
	for i, rule := range inventory.Rules() {
		got := role.Rules[i]
		if !slices.Equal(got.APIGroups, []string{rule.Group}) || !slices.Equal(got.Resources, []string{rule.Resource}) ||
			!slices.Equal(got.Verbs, []string{"list"}) {
			t.Errorf("rule %d is %+v, want list of %+v", i, got, rule)
		}
	}
}

// The oldest events are left out until the dump fits; nothing else is.
func TestSizeBound(t *testing.T) {
	items := []map[string]any{{"kind": "Pod", "name": strings.Repeat("p", 400)}}
	for _, day := range []int{3, 1, 2, 5, 4} {
		items = append(items, map[string]any{
			"kind": "Event", "lastTimestamp": fmt.Sprintf("2026-01-%02dT00:00:00Z", day), "message": strings.Repeat("m", 400),
		})
	}
	kept, dropped, err := fit(items, 2200)
	if err != nil || dropped != 3 || len(kept) != 3 {
		t.Fatalf("%d dropped, %d kept, %v", dropped, len(kept), err)
	}
	if kept[0]["kind"] != "Pod" || lastSeen(kept[1]) != "2026-01-05T00:00:00Z" || lastSeen(kept[2]) != "2026-01-04T00:00:00Z" {
		t.Errorf("kept %v", kept)
	}
	if _, _, err := fit(items, 100); err == nil || !strings.Contains(err.Error(), "--max-size") {
		t.Errorf("a pod that does not fit: %v", err)
	}
}

// Colour is for terminals alone, and NO_COLOR switches it off.
func TestColour(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	if styleFor(&bytes.Buffer{}) != plain {
		t.Error("a buffer gets colour")
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	if styleFor(write) != plain {
		t.Error("a pipe gets colour")
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminal to be had: ", err)
	}
	defer terminal.Close()
	if styleFor(terminal) != coloured {
		t.Error("a terminal gets no colour")
	}
	t.Setenv("NO_COLOR", "1")
	if styleFor(terminal) != plain {
		t.Error("NO_COLOR is not kept")
	}
}

// The cause of an unread kind in a hidden dump has the word of the namespace.
func TestDumpHidesCauses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dump.json")
	text := `{"kind":"List","apiVersion":"v1","metadata":{"annotations":{"purser/dump-time":"2026-01-31T12:00:00Z",` +
		`"purser/unread-pods":"only those in namespace shop may be read"}},"items":[]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := run(t, "dump", "--hide-names", "--from", path)
	if err != nil || strings.Contains(out, "shop") || !strings.Contains(out, "namespace namespace-1 may be read") {
		t.Errorf("%v: %s", err, out)
	}
}

// A pipe can be read once, as --from <(kubectl get ... -o yaml) needs.
func TestFromPipe(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	if _, err := to.WriteString(stuckClaim); err != nil {
		t.Fatal(err)
	}
	to.Close()
	path := fmt.Sprintf("/dev/fd/%d", from.Fd())
	if _, err := os.Stat(path); err != nil {
		t.Skip(err)
	}
	if out, code, err := run(t, "explain", "pvc/c", "-n", "shop", "--from", path); code != 1 {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}
}

// What of a record cannot be used is printed apart from the answer, without control characters.
func TestNotes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	text := `{"time":"2026-01-31T12:00:00Z","op":"begin","schema":"purser.record/v1"}
{"time":"2026-01-31T12:00:00Z","op":"listed","unread":{"Node":"the API server does not serve them"}}
{"time":"2026-01-31T12:00:01Z","op":"note","note":"a role is \u001b[2Jsilent"}
{"time":"2026-01-31T12:00:02Z","op":"add","kind":"PersistentVolumeClaim","namespace":"shop","name":"c",` +
		`"object":{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"namespace":"shop","name":"c"}}}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"life", "pvc/c", "-n", "shop", "--from", path, "-o", "json"},
		{"tree", "pvc/c", "-n", "shop", "--from", path},
		{"explain", "--from", path},
		{"dump", "--from", path},
	} {
		var out, notes bytes.Buffer
		for _, c := range New(Streams{Out: &out, Err: &notes}) {
			if c.Name() == args[0] {
				c.SetArgs(args[1:])
				c.SilenceUsage, c.SilenceErrors = true, true
				_ = c.ExecuteContext(t.Context()) // the exit code of another test
			}
		}
		if want := "Note: a role is \\x1b[2Jsilent\n"; notes.String() != want {
			t.Errorf("%s: notes %q, want %q", args, notes.String(), want)
		}
		if args[0] == "life" && !strings.Contains(out.String(), `"unread": [`) {
			t.Errorf("no unread kinds in %s", out.String())
		}
	}
}

// A value of record without a meaning is refused with the name of its flag.
func TestRecordRefuses(t *testing.T) {
	for _, flag := range []string{"--for=-1s", "--max-age=-1s", "--max-size=-1", "--role-endpoint=here"} {
		if _, _, err := run(t, "record", flag); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
