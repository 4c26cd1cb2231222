package record

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/explain/inventory"
	explain "github.com/purser-csi/purser/internal/explain/rules"
)

var start = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// buffer is an output in memory, whose file is full after some lines.
type buffer struct {
	bytes.Buffer
	files []string
	lines int
	most  int
}

func (b *buffer) Write(line []byte) (int, error) {
	b.lines++
	return b.Buffer.Write(line)
}

func (b *buffer) IsFull(time.Time) bool { return b.most > 0 && b.lines >= b.most }

func (b *buffer) Rotate(time.Time) error {
	b.files = append(b.files, b.String())
	b.Reset()
	b.lines = 0
	return nil
}
func (b *buffer) Listed() error { return nil }
func (b *buffer) Flush() error  { return nil }
func (b *buffer) Close() error  { return nil }

// ticking returns a clock that goes on by a second with each look.
func ticking() func() time.Time {
	now := start
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
}

func claim(version int, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "data", UID: "u1", ResourceVersion: fmt.Sprint(version),
			CreationTimestamp: metav1.NewTime(start),
			Annotations:       map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "hunter2"},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: phase},
	}
}

func secret(version string) *metav1.PartialObjectMetadata {
	s := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "key", UID: "u2", ResourceVersion: version, Annotations: map[string]string{"note": "hunter2"},
	}}
	s.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return s
}

// written is a record with a claim that is bound and deleted, and a secret.
func written(t *testing.T, out Output) {
	t.Helper()
	w := NewWriter(out, "test", ticking())
	if err := w.Begin(); err != nil {
		t.Fatal(err)
	}
	w.Object(inventory.Seen{Object: secret("1"), Initial: true})
	if err := w.Listed(map[explain.Kind]string{explain.Node: "the permission is missing"}); err != nil {
		t.Fatal(err)
	}
	w.Object(inventory.Seen{Object: claim(10, corev1.ClaimPending)})
	w.Object(inventory.Seen{Object: claim(11, corev1.ClaimBound)})
	w.Object(inventory.Seen{Object: secret("12")})
	w.Object(inventory.Seen{Object: claim(13, corev1.ClaimBound), Deleted: true})
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
}

func phases(t *testing.T, r *Record) (all []string) {
	t.Helper()
	for at := r.begin; !at.After(r.End()); at = at.Add(time.Second) {
		b, err := r.At(at)
		if err != nil {
			t.Fatal(err)
		}
		phase := "none"
		for _, c := range b.Cluster().Claims {
			phase = string(c.Status.Phase)
		}
		all = append(all, phase)
	}
	return all
}

// A record gives the objects of each time, and no value of a secret or of an applied configuration.
func TestRecord(t *testing.T) {
	out := &buffer{}
	written(t, out)
	if strings.Contains(out.String(), "hunter2") {
		t.Errorf("a secret is in %s", out.String())
	}
	if !Is(out.Bytes()) || Is([]byte(`{"kind":"List"}`)) || Is(nil) {
		t.Error("a record is not told from a dump")
	}
	r, err := Load(map[string][]byte{"r": out.Bytes()})
	if err != nil || len(r.Notes) > 0 {
		t.Fatal(err, r.Notes)
	}
	if diff := cmp.Diff([]string{"none", "Pending", "Bound", "Bound", "none"}, phases(t, r)); diff != "" {
		t.Error(diff)
	}
	cluster := r.final()
	if cluster.Unread[explain.Node] == "" || cluster.Unread[explain.Pod] != "" {
		t.Errorf("unread: %v", cluster.Unread)
	}
	if len(cluster.Secrets) != 1 || cluster.Secrets[0] != (types.NamespacedName{Namespace: "shop", Name: "key"}) {
		t.Errorf("secrets: %v", cluster.Secrets)
	}
	if _, err := r.At(start.Add(-time.Hour)); err == nil || !strings.Contains(err.Error(), "--at=") {
		t.Errorf("a time before the record: %v", err)
	}
}

// Each file begins with all objects, so that it can be read alone.
func TestRotation(t *testing.T) {
	out := &buffer{most: 5}
	written(t, out)
	if len(out.files) == 0 {
		t.Fatal("one file")
	}
	last, err := Load(map[string][]byte{"r": out.Bytes()})
	if err != nil || len(last.Notes) > 0 {
		t.Fatal(err, last.Notes)
	}
	if got := phases(t, last); got[len(got)-1] != "none" || last.index.Len() == 0 {
		t.Errorf("phases %v, %d objects", got, last.index.Len())
	}
	all := map[string][]byte{"z": []byte(out.files[0]), "a": out.Bytes()}
	both, err := Load(all)
	if err != nil || len(both.Notes) > 0 {
		t.Fatal(err, both.Notes)
	}
	got := phases(t, both)
	if got[1] != "Pending" || got[2] != "Bound" || got[len(got)-1] != "none" {
		t.Errorf("phases %v", got)
	}
}

// The contents that a writer keeps are bounded, and an object whose content it does not keep is compared
// all the same.
func TestKeptContents(t *testing.T) {
	out := &buffer{}
	w := NewWriter(out, "test", ticking())
	_ = w.Begin()
	_ = w.Listed(nil)
	w.Object(inventory.Seen{Object: claim(1, corev1.ClaimPending)})
	for i := range mostDecoded + 10 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("p", i), ResourceVersion: "2"}}
		w.Object(inventory.Seen{Object: pod})
	}
	kept := 0
	for _, k := range w.known {
		if k.content != nil {
			kept++
		}
	}
	if kept != mostDecoded {
		t.Errorf("%d contents are kept", kept)
	}
	before := out.Len()
	w.Object(inventory.Seen{Object: claim(3, corev1.ClaimBound)})
	var line Line
	if err := json.Unmarshal(out.Bytes()[before:], &line); err != nil {
		t.Fatal(err)
	}
	if line.Op != Change || !slices.Equal(line.Changed, []string{"status.phase"}) {
		t.Errorf("%s of %v", line.Op, line.Changed)
	}
}

// A watch that is behind does not put an effect before its cause.
func TestOrder(t *testing.T) {
	out := &buffer{}
	w := NewWriter(out, "test", ticking())
	_ = w.Begin()
	_ = w.Listed(nil)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", UID: "u3", ResourceVersion: "20"}}
	w.Object(inventory.Seen{Object: pod})
	w.Object(inventory.Seen{Object: claim(9, corev1.ClaimPending)})
	r, err := Load(map[string][]byte{"r": out.Bytes()})
	if err != nil {
		t.Fatal(err)
	}
	changes := r.index.Changes()
	if changes[0].Kind != explain.Claim || changes[0].At.After(changes[1].At) {
		t.Errorf("%s at %s, %s at %s", changes[0].Kind, changes[0].At, changes[1].Kind, changes[1].At)
	}
}

// Names are replaced in all lines, by the same words, and the record stays one.
func TestHideNames(t *testing.T) {
	out, hidden := &buffer{}, &bytes.Buffer{}
	written(t, out)
	if _, err := HideNames(out.Bytes(), hidden); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{`"shop"`, `"data"`, `"key"`} {
		if !strings.Contains(out.String(), name) || strings.Contains(hidden.String(), name) {
			t.Errorf("%s is left, or was never there", name)
		}
	}
	r, err := Load(map[string][]byte{"r": hidden.Bytes()})
	if err != nil || len(r.Notes) > 0 {
		t.Fatal(err, r.Notes)
	}
	if diff := cmp.Diff([]string{"none", "Pending", "Bound", "Bound", "none"}, phases(t, r)); diff != "" {
		t.Error(diff)
	}
}

// Text that is no record, or a hostile one, is refused or noted, and never ends the program.
func FuzzLoad(f *testing.F) {
	out := &buffer{}
	w := NewWriter(out, "test", ticking())
	_ = w.Begin()
	_ = w.Listed(nil)
	w.Object(inventory.Seen{Object: claim(10, corev1.ClaimPending)})
	w.Object(inventory.Seen{Object: claim(11, corev1.ClaimBound), Deleted: true})
	f.Add(out.Bytes())
	var packed bytes.Buffer
	gz := gzip.NewWriter(&packed)
	_, _ = gz.Write(out.Bytes())
	_ = gz.Close()
	f.Add(packed.Bytes())
	f.Add([]byte(`{"op":"change","kind":"Pod","name":"p","patch":{"spec":null}}`))
	f.Add(oneUID(
		`"kind":"PersistentVolume","metadata":{"name":"a","uid":"u"}`,
		`"kind":"VolumeAttachment","metadata":{"name":"b","uid":"u"},"spec":{"source":{"persistentVolumeName":"a"}}`,
	))
	f.Add(oneUID(
		`"kind":"PersistentVolumeClaim","metadata":{"namespace":"s","name":"a","uid":"u"}`,
		`"kind":"VolumeSnapshot","metadata":{"namespace":"s","name":"b","uid":"u"},`+
			`"spec":{"source":{"persistentVolumeClaimName":"a"}}`,
	))
	f.Add(oneUID(
		`"kind":"PersistentVolume","metadata":{"name":"c","uid":"v"}`,
		`"kind":"PersistentVolumeClaim","metadata":{"namespace":"s","name":"a","uid":"u"}`,
		`"kind":"Pod","metadata":{"namespace":"s","name":"b","uid":"u"},`+
			`"spec":{"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"a"}}]}`,
	))
	f.Fuzz(func(t *testing.T, text []byte) {
		_ = Is(text)
		r, err := Load(map[string][]byte{"r": text})
		if err != nil {
			return
		}
		h := r.History()
		for _, c := range r.index.Changes() {
			_ = h.Lives(explain.Ref{Kind: c.Kind, Namespace: c.Object.GetNamespace(), Name: c.Object.GetName()})
		}
	})
}

// oneUID is a record with objects of several kinds that have the same uid.
func oneUID(objects ...string) []byte {
	text := `{"op":"begin","schema":"purser.record/v1"}` + "\n" + `{"op":"listed"}` + "\n"
	versions := map[string]string{
		"PersistentVolume": "v1", "PersistentVolumeClaim": "v1", "Pod": "v1",
		"VolumeAttachment": "storage.k8s.io/v1", "VolumeSnapshot": "snapshot.storage.k8s.io/v1",
	}
	for _, o := range objects {
		kind := strings.Split(o, `"`)[3]
		head := `"kind":"` + kind + `"`
		for _, field := range []string{"namespace", "name"} {
			if _, rest, has := strings.Cut(o, `"`+field+`":"`); has {
				value, _, _ := strings.Cut(rest, `"`)
				head += `,"` + field + `":"` + value + `"`
			}
		}
		text += `{"op":"add",` + head + `,"object":{"apiVersion":"` + versions[kind] + `",` + o + `}}` + "\n"
	}
	return []byte(text)
}
