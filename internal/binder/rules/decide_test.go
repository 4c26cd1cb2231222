package binding

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// A row is one situation: the claim and the volumes of a cluster, and what is decided about them.
//
//	{
//		"T1.6 both chose each other by name",
//		cluster(claim(namesVolume("v")), aVolume(claimRef(""), retained)),
//		steps(setsClaimRef("v"), bindsBoth("v"), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
//	},
//
// The functions of build_test.go describe the claim, the volumes and, after with, what else is in the
// cluster: cluster(claim(className("gold"))).with(storageClass(gold)). Those of result_test.go are the
// steps of a verdict. A row that fails prints the steps that were decided as Go source, so a new row
// can be begun with an empty want: step("").
type row struct {
	name string // which begins with the ID of the row in docs/spec
	s    Snapshot
	want step
}

func decides(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if got := stepsOf(Decide(r.s)); got != r.want {
				t.Errorf("\ngot  %s\nwant %s", got, r.want)
			}
		})
	}
}

// C3: what is marked as our choice may be undone. A choice of a user's stays unmarked, on either
// side.
func TestMarks(t *testing.T) {
	decides(t, []row{
		{
			"C3 a mark is not made twice",
			cluster(claim(claimAnnotation(names.AnnBoundByController, "yes"))).with(freeVolume(aVolume(retained, boundByUs))),
			steps(reserves("v"), setsClaimRef("v"), bindsBoth("v"), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},
		{
			"C3 the scheduler marked the volume",
			cluster(claim(), aVolume(claimRef("u"), boundByUs)),
			steps(bindsBoth("v", ours), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},
	})
}

// 1.10, W4: what the status of a claim gets.
func TestBoundStatus(t *testing.T) {
	attributes := func(v *pv) { v.Spec.VolumeAttributesClassName = new("fast") }
	for _, tc := range []struct {
		name       string
		claim      *pvc
		volume     *pv
		capacity   string // "" for none
		attributes string
		write      bool
	}{
		{"pending", claim(), aVolume(attributes), "1Gi", "fast", true},
		{"the capacity of the volume, not of the request", claim(), aVolume(capacity("5Gi")), "5Gi", "", true},
		{
			"8.67 a filesystem that has not grown yet", claim(),
			aVolume(capacity("5Gi"), volumeAnnotation(names.AnnPreResizeCapacity, "2Gi")), "2Gi", "", true,
		},
		{
			"what cannot be read does not count", claim(),
			aVolume(capacity("5Gi"), volumeAnnotation(names.AnnPreResizeCapacity, "many")), "5Gi", "", true,
		},
		{
			"a claim that was lost keeps its attributes class to the resizer", claim(statusLost), aVolume(attributes),
			"1Gi", "", true,
		},
		{
			"bound: capacity and attributes are the resizer's", claim(statusBound),
			aVolume(attributes, capacity("5Gi")), "", "", false,
		},
		{
			"bound: access modes follow", claim(statusBound),
			aVolume(func(v *pv) { v.Spec.AccessModes = append(v.Spec.AccessModes, corev1.ReadOnlyMany) }), "", "", true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, write, err := boundStatus(tc.claim, tc.volume)
			if err != nil || write != tc.write {
				t.Fatalf("write %v, %v", write, err)
			}
			got := ""
			if q, ok := status.Capacity[corev1.ResourceStorage]; ok {
				got = q.String()
			}
			if got != tc.capacity || deref(status.Attributes) != tc.attributes ||
				len(status.AccessModes) != len(tc.volume.Spec.AccessModes) {
				t.Errorf("got %s, %s, %v", got, deref(status.Attributes), status.AccessModes)
			}
		})
	}
	if _, _, err := boundStatus(claim(), aVolume(func(v *pv) { v.Spec.Capacity = nil })); err == nil ||
		!strings.Contains(err.Error(), "capacity") {
		t.Errorf("a volume without a capacity: %v", err)
	}
}

// 1.4: the messages are contracts with upstream, which tools match.
func TestMessages(t *testing.T) {
	late := class("late", "d", waitsForPod)
	for _, tc := range []struct {
		s    Snapshot
		want string
	}{
		{cluster(claim()), "no persistent volumes available for this claim and no storage class is set"},
		{cluster(claim(namesVolume("v")), aVolume(claimRefToOther)), `volume "v" already bound to a different claim.`},
		{
			cluster(claim(namesVolume("v")), aVolume(capacity("1Mi"))),
			`Cannot bind to requested volume "v": requested PV is too small`,
		},
		{
			cluster(claim(namesVolume("v")), aVolume(volumeClass("x"))),
			`Cannot bind to requested volume "v": storageClassName does not match`,
		},
		{
			cluster(claim(namesVolume("v")), aVolume(blockMode)),
			`Cannot bind to requested volume "v": incompatible volumeMode`,
		},
		{
			cluster(claim(namesVolume("v")), aVolume(func(v *pv) { v.Spec.AccessModes = nil })),
			`Cannot bind to requested volume "v": incompatible accessMode`,
		},
		{
			cluster(claim(namesVolume("v")), aVolume(func(v *pv) { v.Spec.VolumeAttributesClassName = new("x") })),
			`Cannot bind to requested volume "v": volumeAttributesClassName does not match`,
		},
		{
			cluster(claim(namesVolume("v")), aVolume(volumeTerminating)),
			`Cannot bind to requested volume "v": the volume is marked for deletion "v"`,
		},
		{
			cluster(claim(className("late"))).with(storageClass(late)),
			"waiting for first consumer to be created before binding",
		},
		{cluster(claim(className("late"))).with(storageClass(late), pods("p")), "waiting for pod p to be scheduled"},
		{cluster(claim(className("late"))).with(storageClass(late), pods("q", "p")), "waiting for pods p,q to be scheduled"},
		{cluster(claim(className("gold"))), `storageclass.storage.k8s.io "gold" not found`},
	} {
		if got := Decide(tc.s).Because().Text(); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

// 1.11: the newest, then by name.
func TestDefaultClass(t *testing.T) {
	classes := []*storagev1.StorageClass{
		class("plain", "d"), class("old", "d", markedDefault(1)), class("b", "d", markedDefault(2)),
		class("a", "d", markedDefault(2)),
		class("no", "d", markedDefault(3),
			func(c *storagev1.StorageClass) { c.Annotations[names.AnnDefaultStorageClass] = "yes" }),
	}
	if got := DefaultClass(classes); got == nil || got.Name != "a" {
		t.Errorf("got %v", got)
	}
	if got := DefaultClass(classes[:1]); got != nil {
		t.Errorf("got %v", got.Name)
	}
}

// 1.12, 1.13: migrated-to follows the provisioner that an object names.
func TestMigration(t *testing.T) {
	inTree := func(v *pv) { v.Finalizers = []string{"kubernetes.io/pv-protection", names.FinalizerInTree} }
	decides(t, []row{
		{
			"claim",
			cluster(claim(className("x"), provisioner("kubernetes.io/cinder"))),
			steps(setsMigratedTo("cinder.csi.openstack.org"), waits(verdict.ClassMissing)),
		},
		{
			"claim, old key",
			cluster(claim(className("x"), claimAnnotation(names.AnnBetaStorageProvisioner, "kubernetes.io/cinder"))),
			steps(setsMigratedTo("cinder.csi.openstack.org"), waits(verdict.ClassMissing)),
		},
		{
			"claim, not migrated",
			cluster(claim(className("x"), provisioner("d"), claimAnnotation(names.AnnMigratedTo, "e"))),
			steps(setsMigratedTo(""), waits(verdict.ClassMissing)),
		},
		{
			"volume",
			cluster(boundClaim("v"), aVolume(claimRef("u"), volumeBound, provisionedBy("kubernetes.io/azure-file"))),
			steps(setsMigratedTo("file.csi.azure.com"), ends(verdict.ClaimBound)),
		},
		{
			"volume, and the finalizer of the plugin",
			alone(
				aVolume(provisionedBy("kubernetes.io/azure-file"),
					volumeAnnotation(names.AnnMigratedTo, "file.csi.azure.com"), inTree),
			),
			steps(setsMigratedTo("file.csi.azure.com", names.FinalizerInTree), ends(verdict.VolumeAvailable)),
		},
		{
			"volume of a plugin that is gone, kept",
			alone(
				aVolume(provisionedBy("kubernetes.io/host-path"), inTree, reclaimPolicy(corev1.PersistentVolumeReclaimRetain)),
			),
			steps(setsMigratedTo("", names.FinalizerInTree), ends(verdict.VolumeAvailable)),
		},
		{
			"the same, to be deleted by hand",
			alone(aVolume(provisionedBy("kubernetes.io/host-path"), inTree)),
			ends(verdict.VolumeAvailable),
		},
		{
			"a claim that is asked for anyway",
			cluster(
				claim(className("x"), provisioner("kubernetes.io/cinder")),
			).with(storageClass(class("x", "kubernetes.io/cinder"))),
			steps(setsProvisioner("cinder.csi.openstack.org"), waits(verdict.ExternalProvisioning)),
		},
	})
}

// A pair is left alone exactly when there is nothing to do for it.
func TestAtRest(t *testing.T) {
	bound := boundVolume()
	for _, tc := range []struct {
		claim  *pvc
		volume *pv
	}{
		{boundClaim("v"), bound},
		{claim(namesVolume("v"), statusBound), bound},
		{claim(namesVolume("v"), bindCompleted), bound},
		{claim(bindCompleted, statusBound), bound},
		{boundClaim("v"), aVolume(claimRef("u"))},
		{boundClaim("v"), aVolume(claimRef(""), volumeBound)},
		{boundClaim("v"), aVolume(claimRefToOther, volumeBound)},
		{boundClaim("v", provisioner("kubernetes.io/cinder")), bound},
		{boundClaim("v", claimAnnotation(names.AnnReuse, names.ReuseAny)), bound},
	} {
		want := stepsOf(Decide(cluster(tc.claim, tc.volume).with(volumesReadLive))) == ends(verdict.ClaimBound)
		if got := AtRest(tc.claim, tc.volume); got != want {
			t.Errorf("%v of %s", got, stepsOf(Decide(cluster(tc.claim, tc.volume))))
		}
	}
}
