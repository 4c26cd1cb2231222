package provision

import (
	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
)

const (
	driver = "csi.example"
	uid    = types.UID("0a1b2c3d-0000-4000-8000-000000000001")
	pvName = "pvc-" + string(uid)
)

// world is a snapshot in which a claim of one gibibyte waits for a volume, changed by edits.
func world(edits ...func(*Snapshot)) Snapshot {
	key := Key{NamespacedName: types.NamespacedName{Namespace: "crew", Name: "logbook"}, UID: uid}
	s := Snapshot{
		Key: key,
		Claim: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: key.Namespace, Name: key.Name, UID: uid, ResourceVersion: "7",
				Annotations: map[string]string{names.AnnStorageProvisioner: driver},
			},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: new("fast"),
				AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				},
			},
		},
		Class: &storagev1.StorageClass{
			ObjectMeta:  metav1.ObjectMeta{Name: "fast", UID: "class-uid"},
			Provisioner: driver,
			Parameters:  map[string]string{"tier": "ssd"},
		},
		Driver: Driver{
			Name:       driver,
			Plugin:     map[csi.PluginCapability_Service_Type]bool{csi.PluginCapability_Service_CONTROLLER_SERVICE: true},
			Controller: map[csi.ControllerServiceCapability_RPC_Type]bool{csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME: true},
		},
		Options: Options{NamePrefix: "pvc", NameUUIDLength: -1, Identity: "me"},
	}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func noClaim(s *Snapshot) { s.Claim = nil }

func deleting(s *Snapshot) { s.Claim.DeletionTimestamp = new(metav1.Now()) }

func bound(s *Snapshot) { s.Claim.Spec.VolumeName = "other" }

func boundToOurs(phase corev1.PersistentVolumeClaimPhase) func(*Snapshot) {
	return func(s *Snapshot) { s.Claim.Spec.VolumeName, s.Claim.Status.Phase = pvName, phase }
}

func firstUse(s *Snapshot) {
	s.Class.VolumeBindingMode = ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
}

func unasked(s *Snapshot) { s.Claim.Annotations = map[string]string{} }

func handedOver(s *Snapshot) { s.HandedOver = true }

func hasTopology(s *Snapshot) { s.Driver.HasTopology = true }

// onNode has a node selected that has these labels, nil for one that does not exist, and this
// driver; "" for no CSINode.
func onNode(labels map[string]string, driver string) func(*Snapshot) {
	return func(s *Snapshot) {
		annotate(names.AnnSelectedNode, "n1")(s)
		if labels != nil {
			s.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: labels}}
		}
		if driver != "" {
			s.CSINode = &storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driver, TopologyKeys: []string{"zone"}}}}}
		}
	}
}

func pending(s *Snapshot) {
	request, _ := NewRequest(world())
	s.Pending = &intent.Entry{Claim: s.Key.NamespacedName, UID: uid, VolumeName: pvName, Request: request}
}

func knownAs(handle string) func(*Snapshot) {
	return func(s *Snapshot) { s.Pending.Known.Handle = handle }
}

func annotate(key, value string) func(*Snapshot) {
	return func(s *Snapshot) { s.Claim.Annotations[key] = value }
}

func volumeOf(claim types.UID) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Volume = &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: pvName},
			Spec: corev1.PersistentVolumeSpec{
				ClaimRef:               &corev1.ObjectReference{UID: claim},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h"}},
			},
		}
	}
}

func failed(times int) func(*Snapshot) { return func(s *Snapshot) { s.Retry.Failed = times } }

func ofOtherDriver(s *Snapshot) { s.Volume.Spec.CSI.Driver = "csi.other" }
