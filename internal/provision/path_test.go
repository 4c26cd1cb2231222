package provision

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/reconcile"
)

// withoutSecrets is a class of no secrets, as most are.
func withoutSecrets(class *storagev1.StorageClass) { class.Parameters = nil }

func (r *rig) claim(t *testing.T) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	if err := r.api.Get(t.Context(), r.key.NamespacedName, claim); err != nil {
		t.Fatal(err)
	}
	return claim
}

// C-1: a claim is enqueued by its uid, and only if it may be ours and has no volume, or has a
// journal entry.
func TestClaimsAreEnqueued(t *testing.T) {
	r := newRig(t)
	for _, tc := range []struct {
		row  string
		edit func(*corev1.PersistentVolumeClaim)
		want bool
	}{
		{"C-1 ours, without a volume", func(*corev1.PersistentVolumeClaim) {}, true},
		{"C-1 ours, with a volume", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" }, false},
		{"C-1 another driver's", func(c *corev1.PersistentVolumeClaim) { c.Annotations[names.AnnStorageProvisioner] = "other" }, false},
		{"C-1 not asked for yet", func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }, false},
		{"C-1 with a volume, and in the journal", func(c *corev1.PersistentVolumeClaim) { c.UID, c.Spec.VolumeName = "recorded", "pv" }, true},
		{"C-1 another driver's by now, and in the journal", func(c *corev1.PersistentVolumeClaim) { c.UID, c.Annotations = "recorded", nil }, true},
	} {
		t.Run(tc.row, func(t *testing.T) {
			if err := r.journal.Record(t.Context(), intent.Entry{UID: "recorded"}); err != nil {
				t.Fatal(err)
			}
			claim := r.claim(t)
			tc.edit(claim)
			var want []provision.Key
			if tc.want {
				want = []provision.Key{{NamespacedName: r.key.NamespacedName, UID: claim.UID}}
			}
			if diff := cmp.Diff(want, r.fromClaim(t.Context(), claim)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// timed notes how long a call may take.
type timed struct {
	csi.ControllerClient
	left, leftToDelete time.Duration
	volume             *csi.Volume // that CreateVolume answers with; nil for no answer
}

func (d *timed) CreateVolume(ctx context.Context, _ *csi.CreateVolumeRequest, _ ...grpc.CallOption) (*csi.CreateVolumeResponse, error) {
	if deadline, ok := ctx.Deadline(); ok {
		d.left = time.Until(deadline)
	}
	if d.volume != nil {
		return &csi.CreateVolumeResponse{Volume: d.volume}, nil
	}
	return nil, context.DeadlineExceeded
}

func (d *timed) DeleteVolume(ctx context.Context, _ *csi.DeleteVolumeRequest, _ ...grpc.CallOption) (*csi.DeleteVolumeResponse, error) {
	if deadline, ok := ctx.Deadline(); ok {
		d.leftToDelete = time.Until(deadline)
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// C-6, F-10: --timeout bounds the call to the driver alone. What comes before and after it has time
// of its own.
func TestTimeoutIsTheCalls(t *testing.T) {
	r := newRig(t, withoutSecrets)
	d := &timed{}
	r.CSI, r.Timeout = d, time.Hour
	r.run(t)
	if d.left <= time.Hour-time.Minute || d.left > time.Hour {
		t.Errorf("C-6: the call may take %s, want %s", d.left, r.Timeout)
	}
	if bound := r.Loop().Bound; bound != 2*r.Timeout+reconcile.APITimeout { // it may wait for the end of another call
		t.Errorf("C-6: the run may take %s", bound)
	}
}

// U-29: the volume that does not fit is deleted within the time of a deletion.
func TestDeleteTimeoutIsTheDeletions(t *testing.T) {
	r := newRig(t, withoutSecrets)
	d := &timed{volume: &csi.Volume{VolumeId: "h", CapacityBytes: 1}}
	r.CSI, r.Timeout, r.Discard = d, time.Minute, time.Hour
	r.run(t)
	if d.left > time.Minute || d.leftToDelete <= time.Hour-time.Minute || d.leftToDelete > time.Hour {
		t.Errorf("U-29: CreateVolume may take %s, DeleteVolume %s", d.left, d.leftToDelete)
	}
	if bound := r.Loop().Bound; bound != 2*r.Discard+reconcile.APITimeout {
		t.Errorf("U-29: the run may take %s", bound)
	}
}

// C-114: an ordinary claim is provisioned without a read of the API server, and C-84: without a
// write of the claim.
func TestProvisioningReadsAndWritesNothingElse(t *testing.T) {
	r := newRig(t, withoutSecrets)
	before := r.claim(t)
	r.Live = refusing{}
	r.run(t)
	var pv corev1.PersistentVolume
	if err := r.api.Get(t.Context(), client.ObjectKey{Name: "pvc-u"}, &pv); err != nil || len(r.driver.created) != 1 {
		t.Fatalf("C-114: %v, %d calls, events %q", err, len(r.driver.created), r.events)
	}
	if diff := cmp.Diff(before, r.claim(t)); diff != "" {
		t.Errorf("C-84: the claim was written:\n%s", diff)
	}
}

// refusing is an API server that is not to be asked.
type refusing struct{}

func (refusing) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("the API server was asked")
}

func (refusing) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("the API server was asked")
}

// stale is a cache that has not seen any PersistentVolume yet.
type stale struct{ client.Reader }

func (s stale) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, is := o.(*corev1.PersistentVolume); is {
		return apierrors.NewNotFound(corev1.Resource("persistentvolumes"), key.Name)
	}
	return s.Reader.Get(ctx, key, o, opts...)
}

// C-117, U-2: the volume that was written is known although the cache does not have it, and one
// that the watch has seen go is not taken for there because we wrote it once.
func TestOwnWritesAreSeenAndNotForEver(t *testing.T) {
	r := newRig(t, withoutSecrets)
	r.run(t)
	written := &corev1.PersistentVolume{}
	if err := r.api.Get(t.Context(), client.ObjectKey{Name: "pvc-u"}, written); err != nil {
		t.Fatal(err)
	}
	r.Cached = r.Cached.Over(stale{r.api})
	r.run(t)
	if calls := len(r.driver.created); calls != 1 {
		t.Errorf("C-117 the cache lags: CreateVolume was called %d times", calls)
	}
	s, err := r.Gather(t.Context(), r.key)
	if err != nil || s.Volume == nil || s.Volume.UID != written.UID {
		t.Errorf("C-117 the cache lags: %v, %v", s.Volume, err)
	}
	r.forceAway(t)
	gone := written.DeepCopy()
	gone.ResourceVersion = "999999"
	r.Cached.Gone(gone)
	if s, err = r.Gather(t.Context(), r.key); err != nil || s.Volume != nil {
		t.Errorf("C-117 the watch has seen it go: %v, %v", s.Volume, err)
	}
}

// C-94: the work for a claim is not that for another one of its name.
func TestClaimOfTheSameNameIsAnother(t *testing.T) {
	r := newRig(t, withoutSecrets)
	s, err := r.Gather(t.Context(), provision.Key{NamespacedName: r.key.NamespacedName, UID: types.UID("the one before")})
	if err != nil || s.Claim != nil {
		t.Errorf("C-94: %v, %v", s.Claim, err)
	}
}
