package provision

import (
	"context"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
	provision "github.com/purser-csi/purser/internal/provision/rules"
)

// A claim that gets its volume is the last change of most, and there is nothing left to do for it,
// unless something is remembered.
func TestChangesAreEnqueued(t *testing.T) {
	bound := func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" }
	for _, tc := range []struct {
		row     string
		change  func(*corev1.PersistentVolumeClaim)
		failed  bool // an attempt for the claim as it was
		pending bool // a request of the claim as it was
		want    []provision.Key
	}{
		{row: "still without a volume", change: func(*corev1.PersistentVolumeClaim) {}, want: []provision.Key{{UID: "u"}}},
		{row: "bound", change: bound},
		{row: "bound, and an attempt has failed", change: bound, failed: true, want: []provision.Key{{UID: "u"}}},
		{row: "bound, and in the journal", change: bound, pending: true, want: []provision.Key{{UID: "u"}}},
		{row: "C-94 another claim by now", change: func(c *corev1.PersistentVolumeClaim) { c.UID = "v" }, want: []provision.Key{{UID: "u"}, {UID: "v"}}},
		{
			row: "C-94 another claim by now, which has a volume", pending: true, want: []provision.Key{{UID: "u"}},
			change: func(c *corev1.PersistentVolumeClaim) { c.UID, c.Spec.VolumeName = "v", "pv" },
		},
	} {
		t.Run(tc.row, func(t *testing.T) {
			r := newRig(t)
			if tc.failed {
				r.driver.create = codes.ResourceExhausted
				r.run(t)
			}
			if tc.pending {
				if err := r.journal.Record(t.Context(), intent.Entry{UID: "u"}); err != nil {
					t.Fatal(err)
				}
			}
			was := r.claim(t)
			is := was.DeepCopy()
			tc.change(is)
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[provision.Key]())
			defer q.ShutDown()
			latest(r.fromClaim).Update(t.Context(), event.TypedUpdateEvent[*corev1.PersistentVolumeClaim]{ObjectOld: was, ObjectNew: is}, q)
			if q.Len() != len(tc.want) {
				t.Fatalf("enqueued %d, want %v", q.Len(), tc.want)
			}
			for _, want := range tc.want {
				want.NamespacedName = r.key.NamespacedName
				if key, _ := q.Get(); key != want {
					t.Errorf("enqueued %v, want %v", key, want)
				}
			}
		})
	}
}

// H-1: what a previous leader left is enqueued.
func TestEntriesOfThePreviousLeaderAreEnqueued(t *testing.T) {
	r := newRig(t)
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[provision.Key]())
	defer q.ShutDown()
	if err := r.journal.Record(t.Context(), intent.Entry{UID: "left"}); err != nil {
		t.Fatal(err)
	}
	if err := r.fromJournal(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if key, _ := q.Get(); key.UID != "left" {
		t.Errorf("enqueued %v", key)
	}
}

// H-43: of a class that waiting claims name, what a request is made from may be edited in place,
// and the claims need not wait until they are tried again.
func TestClassEditsAreEnqueued(t *testing.T) {
	for _, tc := range []struct {
		row  string
		edit func(*storagev1.StorageClass)
		want int
	}{
		{"H-43 nothing that a request is made from", func(c *storagev1.StorageClass) { c.AllowVolumeExpansion = new(true) }, 0},
		{"H-43 mount options", func(c *storagev1.StorageClass) { c.MountOptions = []string{"noatime"} }, 1},
		{"H-43 allowed topologies", func(c *storagev1.StorageClass) {
			c.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: []string{"a"}}}}}
		}, 1},
		{"C-14 made again while the watch was broken", func(c *storagev1.StorageClass) { c.UID = "new" }, 1},
	} {
		t.Run(tc.row, func(t *testing.T) {
			was := &storagev1.StorageClass{}
			is := was.DeepCopy()
			tc.edit(is)
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[provision.Key]())
			defer q.ShutDown()
			all := func(context.Context, *storagev1.StorageClass) []provision.Key { return []provision.Key{{UID: "u"}} }
			created(all, edited).Update(t.Context(), event.TypedUpdateEvent[*storagev1.StorageClass]{ObjectOld: was, ObjectNew: is}, q)
			if q.Len() != tc.want {
				t.Errorf("enqueued %d, want %d", q.Len(), tc.want)
			}
		})
	}
}

// a class with outdated parameter keys is logged once, and another driver's class
// never.
func TestOutdatedKeysAreLoggedOnce(t *testing.T) {
	old := func(class *storagev1.StorageClass) {
		class.UID, class.Parameters = "c", map[string]string{"FSType": "xfs", "csiProvisionerSecretName": "s", "csiProvisionerSecretNamespace": "n", "tier": "ssd"}
	}
	for _, tc := range []struct {
		row  string
		edit func(*storagev1.StorageClass)
		want []string // keys and what took their place
	}{
		{"R-21 R-31 old keys", old, []string{
			"FSType", names.ParameterFSType, "csiProvisionerSecretName", names.ParameterProvisionerSecretName,
			"csiProvisionerSecretNamespace", names.ParameterProvisionerSecretNamespace,
		}},
		{"R-21 new keys", func(class *storagev1.StorageClass) {
			class.Parameters = map[string]string{names.ParameterFSType: "xfs"}
		}, nil},
		{"R-21 another driver's", func(class *storagev1.StorageClass) { old(class); class.Provisioner = "other" }, nil},
	} {
		t.Run(tc.row, func(t *testing.T) {
			r, class, lines := newRig(t), &storagev1.StorageClass{Provisioner: driverName}, []string{}
			tc.edit(class)
			log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
			for range 2 {
				r.fromClass(logr.NewContext(t.Context(), log), class)
			}
			if len(lines) != len(tc.want)/2 {
				t.Fatalf("logged %q", lines)
			}
			for i, word := range tc.want {
				if !strings.Contains(lines[i/2], `"`+word+`"`) {
					t.Errorf("%q is not in %s", word, lines[i/2])
				}
			}
		})
	}
}
