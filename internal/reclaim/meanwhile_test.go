package reclaim

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	corereclaim "github.com/purser-csi/purser/internal/reclaim/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// strict is an API server that notes which resource version each write is for, and has another one
// if another client is writing.
type strict struct {
	client.Client
	version string // of the object; it is patched into the next one
	asked   []string
}

func (s *strict) take(verb, version string) error {
	s.asked = append(s.asked, verb+" "+cmp.Or(version, "any"))
	if version != "" && version != s.version {
		return apierrors.NewConflict(schema.GroupResource{Resource: "persistentvolumes"}, "pv", nil)
	}
	return nil
}

func (s *strict) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	data, err := p.Data(o)
	if err != nil {
		return err
	}
	_, version, _ := strings.Cut(string(data), `"resourceVersion":"`)
	version, _, _ = strings.Cut(version, `"`)
	if err := s.take("patch", version); err != nil {
		return err
	}
	s.version += "1"
	o.SetResourceVersion(s.version)
	return nil
}

func (s *strict) Delete(_ context.Context, _ client.Object, options ...client.DeleteOption) error {
	var o client.DeleteOptions
	o.ApplyOptions(options)
	var version string
	if o.Preconditions.ResourceVersion != nil {
		version = *o.Preconditions.ResourceVersion
	}
	return s.take("delete", version)
}

// The patch of the finalizer takes the object as it is, and the deletion follows upon the patch. The
// deletion is done all the same when another client has written the object (D-20, H-18).
func TestConcurrentWriteOfTheVolume(t *testing.T) {
	for _, tc := range []struct {
		name       string
		finalizers []string // of the view
		at, then   string   // the resource version before each of the two writes; empty for what is to be expected
		shown      bool     // our first write has come through the watch before the second
		want       []string
	}{
		{"no other writer", []string{names.FinalizerVolume}, "", "", false, []string{"patch any", "delete 71"}},
		{"no other writer, and the watch is fast", []string{names.FinalizerVolume}, "", "", true, []string{"patch any", "delete 71"}},
		{"before the patch", []string{names.FinalizerVolume}, "8", "", false, []string{"patch any", "delete 81"}},
		{"before the deletion", []string{names.FinalizerVolume}, "", "9", false, []string{"patch any", "delete 71", "delete any"}},
		{"we did, since the finalizer was not there", nil, "8", "", false, []string{"patch any", "delete 81"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "u", ResourceVersion: "7", Finalizers: tc.finalizers}}
			server := &strict{version: cmp.Or(tc.at, "7")}
			seen := pv.DeepCopy()
			c := writing(seen, server)
			if _, err := c.Apply(t.Context(), corereclaim.Snapshot{}, corereclaim.RemoveFinalizers{Volume: pv, Names: []string{names.FinalizerVolume}}); err != nil {
				t.Fatal(err)
			}
			if tc.shown {
				seen.ResourceVersion = server.version
				c.Cached.Saw(seen)
			}
			server.version = cmp.Or(tc.then, server.version)
			if _, err := c.Apply(t.Context(), corereclaim.Snapshot{}, corereclaim.DeleteObject{Volume: pv}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(server.asked, tc.want) {
				t.Errorf("asked %q, want %q", server.asked, tc.want)
			}
		})
	}
}

// C-114: before it deletes a volume, the controller adds the finalizer with the resourceVersion as
// precondition, so that a change by an administrator who saves the volume wins. A bound volume gets
// the finalizer without that precondition.
func TestProtectedAsItWasSeen(t *testing.T) {
	for when, want := range map[corev1.PersistentVolumePhase]struct {
		asked []string
		err   bool
	}{
		corev1.VolumeReleased: {[]string{"patch 7"}, true},
		corev1.VolumeBound:    {[]string{"patch any"}, false},
	} {
		pv := releasedVolume(phase(when), func(pv *corev1.PersistentVolume) { pv.ResourceVersion, pv.Finalizers = "7", nil })
		server := &strict{version: "8"}
		c := writing(pv, server)
		_, v, err := verdict.Settle(
			corereclaim.Snapshot{Name: "pv", Volume: pv, Known: corereclaim.Known{ReleasedFrom: "c"}, Driver: c.Driver},
			func(s corereclaim.Snapshot) verdict.Verdict[corereclaim.Action] { return c.Decide(s, now) },
			func(s corereclaim.Snapshot, refs []verdict.Ref) (corereclaim.Snapshot, error) {
				for _, ref := range refs {
					s = s.With(ref, corereclaim.Answer{})
				}
				return s, nil
			},
		)
		todo, ok := v.(verdict.Do[corereclaim.Action])
		if !ok || err != nil {
			t.Fatal(v, err)
		}
		if _, err := c.Apply(t.Context(), corereclaim.Snapshot{}, todo.Actions[0]); (err != nil) != want.err || !slices.Equal(server.asked, want.asked) {
			t.Errorf("%s: asked %q, %v", when, server.asked, err)
		}
	}
}
