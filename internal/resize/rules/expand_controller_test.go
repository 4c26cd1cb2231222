package resizing

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

func shape(v ExpansionVerdict) string {
	switch v := v.(type) {
	case expansionNothing:
		return "nothing " + string(v.Reason)
	case expansionWait:
		return "wait " + string(v.Reason) + ": " + v.Text()
	case expansionRefuse:
		return "refuse " + string(v.Reason)
	case expansionDo:
		out := ""
		for _, a := range v.Actions {
			out += "name " + a.NameResizer + " "
		}
		return out + "then " + shape(v.Then)
	}
	return "nil"
}

func expansionStorage(s string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(s)}
}

// world returns the snapshot of a claim that has 1Gi and requests 2Gi.
func world(edits ...func(*ExpansionSnapshot)) ExpansionSnapshot {
	s := ExpansionSnapshot{
		Key: Key{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "c"}, UID: "u", Size: "2Gi"},
		Claim: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "u"},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "v", Resources: corev1.VolumeResourceRequirements{Requests: expansionStorage("2Gi")}},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: expansionStorage("1Gi")},
		},
		Volume: &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
			ClaimRef:               &corev1.ObjectReference{Namespace: "ns", Name: "c", UID: "u"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d"}},
		}},
	}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func TestExpansionDecide(t *testing.T) {
	const waits = "wait ExpansionAwaited: waiting for an external controller to expand this PVC"
	const moved = "wait ExpansionMigrated: CSI migration enabled for kubernetes.io/cinder; waiting for external resizer to expand the pvc"
	source := func(source corev1.PersistentVolumeSource) func(*ExpansionSnapshot) {
		return func(s *ExpansionSnapshot) { s.Volume.Spec.PersistentVolumeSource = source }
	}
	cinder := source(corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{}})
	for _, tc := range []struct {
		row  string
		s    ExpansionSnapshot
		want string
	}{
		{"3.4 CSI", world(), waits},
		{"3.4 neither CSI nor migrated", world(source(corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{}})), waits},
		{"3.4 migrated", world(cinder), "name cinder.csi.openstack.org then " + moved},
		{"3.4 migrated and named", world(cinder, func(s *ExpansionSnapshot) {
			s.Claim.Annotations = map[string]string{names.AnnStorageResizer: "cinder.csi.openstack.org"}
		}), moved},
		{"3.4 it has what it asks for", world(func(s *ExpansionSnapshot) { s.Claim.Status.Capacity = expansionStorage("2Gi") }), "nothing ResizeNotRequested"},
		{"3.4 it has more", world(func(s *ExpansionSnapshot) { s.Claim.Status.Capacity = expansionStorage("3Gi") }), "nothing ResizeNotRequested"},
		{"3.4 it asks for more by now", world(func(s *ExpansionSnapshot) { s.Key.Size = "3Gi" }), "nothing ResizeNotRequested"},
		{"3.4 it is not bound", world(func(s *ExpansionSnapshot) { s.Claim.Status.Phase = corev1.ClaimPending }), "nothing ResizeNotRequested"},
		{"3.4 it is gone", world(func(s *ExpansionSnapshot) { s.Claim = nil }), "nothing ResizeNotRequested"},
		{"3.4 no such volume", world(func(s *ExpansionSnapshot) { s.Volume = nil }), "refuse ExpansionNotReady"},
		{"3.4 the volume is another claim's", world(func(s *ExpansionSnapshot) { s.Volume.Spec.ClaimRef.UID = "other" }), "refuse ExpansionNotReady"},
		{"3.4 the volume has no claimRef", world(func(s *ExpansionSnapshot) { s.Volume.Spec.ClaimRef = nil }), "refuse ExpansionNotReady"},
	} {
		t.Run(tc.row, func(t *testing.T) {
			if got := shape(DecideExpansion(tc.s)); got != tc.want {
				t.Errorf("got %s\nwant %s", got, tc.want)
			}
		})
	}
	for _, reason := range []verdict.Reason{verdict.ExpansionAwaited, verdict.ExpansionMigrated} {
		if got := verdict.Describe(reason); got.Event != "ExternalExpanding" || got.Severity != verdict.Normal {
			t.Errorf("%s: %+v", reason, got)
		}
	}
}

// 3.4: each migrated in-tree plugin has its CSI driver.
func TestMigrated(t *testing.T) {
	for driver, source := range map[string]corev1.PersistentVolumeSource{
		"":                         {HostPath: &corev1.HostPathVolumeSource{}},
		"ebs.csi.aws.com":          {AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}},
		"pd.csi.storage.gke.io":    {GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{}},
		"disk.csi.azure.com":       {AzureDisk: &corev1.AzureDiskVolumeSource{}},
		"file.csi.azure.com":       {AzureFile: &corev1.AzureFilePersistentVolumeSource{}},
		"cinder.csi.openstack.org": {Cinder: &corev1.CinderPersistentVolumeSource{}},
		"csi.vsphere.vmware.com":   {VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{}},
		"pxd.portworx.com":         {PortworxVolume: &corev1.PortworxVolumeSource{}},
	} {
		if plugin, got := migrated(&corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: source}}); got != driver || (plugin == "") != (driver == "") {
			t.Errorf("%q: got %q of %q", driver, got, plugin)
		}
	}
}

func FuzzDecide(f *testing.F) {
	f.Add(uint16(0), int64(0), int64(0))
	f.Add(uint16(0xffff), int64(2), int64(1))
	f.Fuzz(func(t *testing.T, bits uint16, asks, has int64) {
		yes := func() bool { b := bits & 1; bits >>= 1; return b == 1 }
		s := ExpansionSnapshot{Key: Key{Size: resource.NewQuantity(asks, resource.BinarySI).String()}}
		if yes() {
			s.Claim = &corev1.PersistentVolumeClaim{}
			if yes() {
				s.Claim.Status.Phase = corev1.ClaimBound
			}
			if yes() {
				s.Claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(asks, resource.BinarySI)}
			}
			if yes() {
				s.Claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(has, resource.BinarySI)}
			}
		}
		if yes() {
			s.Volume = &corev1.PersistentVolume{}
			if yes() {
				s.Volume.Spec.ClaimRef = &corev1.ObjectReference{}
			}
			if yes() {
				s.Volume.Spec.Cinder = &corev1.CinderPersistentVolumeSource{}
			}
		}
		if v := DecideExpansion(s); v == nil || v.Because().Reason == "" {
			t.Errorf("no verdict for %+v", s)
		}
	})
}
