package e2e

import (
	"os"
	"syscall"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
)

// A claim with the annotation of our provisioner whose class does not exist, as after a restore
// that creates claims before classes, gets an event, and is provisioned when the class is created.
// (For a claim without the annotation, the stock PV controller emits the event.)
func TestClassMissing(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, shared(t))
	claim := b.newClaim("early", b.name)
	claim.Annotations = map[string]string{names.AnnStorageProvisioner: builtIn}
	must(t, b.Client.Create(t.Context(), claim))
	b.awaitEvent(t, claim, builtIn, corev1.EventTypeWarning, "ProvisioningFailed", `StorageClass "`+b.name+`" does not exist`)
	b.class(t, nil)
	pv := b.awaitBound(t, claim)
	b.delete(t, claim)
	b.awaitGone(t, pv)
}

// For a class with a mistake, the event has the driver's message. A corrected class enqueues the
// claim at once, not with the retry in five minutes.
func TestClassCorrected(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, shared(t))
	class := b.class(t, func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"colour": "red"} })
	claim := b.claim(t, "wrong", class.Name)
	b.awaitEvent(t, claim, builtIn, corev1.EventTypeWarning, "ProvisioningFailed", "infeasible")
	b.awaitEvent(t, claim, builtIn, corev1.EventTypeWarning, "ProvisioningFailed", "colour")
	b.delete(t, class)
	b.awaitGone(t, class)
	b.class(t, nil)
	pv := b.awaitBound(t, claim)
	b.delete(t, claim)
	b.awaitGone(t, pv)
}

// A claim that waits for such a class can be deleted, and nothing is left of it.
func TestClassNeverCorrected(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, shared(t))
	class := b.class(t, func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"colour": "red"} })
	claim := b.claim(t, "wrong", class.Name)
	b.awaitEvent(t, claim, builtIn, corev1.EventTypeWarning, "ProvisioningFailed", "infeasible")
	b.delete(t, claim)
	b.awaitGone(t, claim)
	b.passBy(t, "meanwhile")
	if exists(t, b.folder(claim)) {
		t.Error("a volume is on disk")
	}
}

// a claim whose source is another claim gets a copy, and not an empty volume.
func TestCloneOfAClaim(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, shared(t))
	origin := b.claim(t, "origin", "")
	b.awaitBound(t, origin)
	clone := b.newClaim("clone", "")
	clone.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: origin.Name}
	clone.ObjectMeta = metav1.ObjectMeta{Namespace: b.name, Name: "clone"}
	must(t, b.Client.Create(t.Context(), clone))
	b.awaitBound(t, clone)
	must(t, b.Client.Get(t.Context(), client.ObjectKeyFromObject(clone), clone))
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: clone.Spec.VolumeName}}
	must(t, b.Client.Get(t.Context(), client.ObjectKeyFromObject(pv), pv))
	if clone.Spec.VolumeName == origin.Spec.VolumeName || !exists(t, b.folder(clone)) {
		t.Errorf("the clone has volume %s, the source %s; on disk: %v", pv.Name, origin.Spec.VolumeName, exists(t, b.folder(clone)))
	}
}

// A pod's fsGroup is that of the files of a volume whose class names no filesystem: the CSIDriver that
// `up` makes has the policy of the driver's manifest. Without root the volume is published as it is.
func TestClassWithoutFilesystem(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, shared(t))
	claim := b.claim(t, "grouped", "")
	_, target := b.usingPod(t, claim, "app", func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(4321))}
	})
	info, err := os.Lstat(target)
	must(t, err)
	got := info.Sys().(*syscall.Stat_t)
	if os.Geteuid() == 0 && (got.Gid != 4321 || got.Mode&0o2070 != 0o2070) {
		t.Errorf("the folder of the volume has group %d and mode %o", got.Gid, got.Mode)
	}
}
