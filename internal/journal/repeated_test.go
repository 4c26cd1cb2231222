package journal

import (
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

// H-1: after a kill, the PersistentVolume of a request that was sent once proves that its call has
// ended, and its volume is deleted at once. After a second call it proves nothing.
func TestOnlyCallIsProvenByItsVolume(t *testing.T) {
	for name, tc := range map[string]struct {
		calls  int
		edit   func(*coordinationv1.Lease) // of the Lease that the killed leader left
		proven bool
	}{
		"one call":  {1, nil, true},
		"two calls": {2, nil, false},
		"too many claims had two": {1, func(l *coordinationv1.Lease) {
			delete(l.Annotations, names.AnnIntentsRepeated)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				former := start(t, a, "former")
				for range tc.calls {
					record(t, former.Journal, 1)
					call(t, former.Journal, 1)
				}
				former.die()
				if tc.edit != nil {
					lease := &coordinationv1.Lease{}
					if err := a.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "j"}, lease); err != nil {
						t.Fatal(err)
					}
					tc.edit(lease)
					if err := a.Update(t.Context(), lease); err != nil {
						t.Fatal(err)
					}
				}
				next := start(t, a, "next")
				if ends := next.CallsEnd("pvc-uid-1", "uid-1"); ends.IsZero() != tc.proven {
					t.Errorf("the calls end at %v", ends)
				}
				if ends := next.CallsEnd("pvc-uid-1", "other"); ends.IsZero() {
					t.Error("the volume of another claim proves it")
				}
				if err := next.Resolve(t.Context(), "uid-1"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(idle + time.Second)
				next.die()
				third := start(t, a, "third")
				if n := len(third.Entries()); tc.proven && n > 0 {
					t.Errorf("%d requests are left for the next leader", n)
				}
				third.die()
			})
		})
	}
}
