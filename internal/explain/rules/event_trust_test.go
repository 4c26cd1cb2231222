package explain

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// trustScene is a pod on node n1 with the claim "data" and its attached volume pv-1, all an hour old.
type trustScene struct {
	*Cluster
	pod   *corev1.Pod
	claim *corev1.PersistentVolumeClaim
	pv    *corev1.PersistentVolume
	node  *corev1.Node
	va    *storagev1.VolumeAttachment
}

func newTrustScene() trustScene {
	pod, c := mountingPod()
	claim, pv, hour := c.Claims[0], c.Volumes[0], ago(time.Hour)
	claim.UID, claim.CreationTimestamp, pv.UID, pv.CreationTimestamp = "u-claim", hour, "u-pv", hour
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	gold := "gold"
	claim.Spec.VolumeAttributesClassName = &gold
	pv.Status.Phase = corev1.VolumeReleased
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	node.Status.VolumesInUse = []corev1.UniqueVolumeName{uniqueName(pv)}
	c.Nodes = []*corev1.Node{node}
	return trustScene{c, pod, claim, pv, node, c.Attachments[0]}
}

func condition(s trustScene, kind corev1.PersistentVolumeClaimConditionType, since time.Duration) {
	s.claim.Status.Conditions = append(s.claim.Status.Conditions, corev1.PersistentVolumeClaimCondition{
		Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: ago(since),
	})
}

// Any user of a namespace can write an event about its objects with any reason and author. No finding rests
// on an event that fields of the object contradict.
func TestForgedEvents(t *testing.T) {
	pod, claim, pv := Ref{Pod, "shop", "web"}, Ref{Claim, "shop", "data"}, Ref{Kind: Volume, Name: "pv-1"}
	for name, tc := range map[string]struct {
		about  Ref
		reason string
		edit   func(trustScene, *corev1.Event)
		counts bool
	}{
		"ProvisioningFailed on a pending claim": {claim, "ProvisioningFailed", func(s trustScene, _ *corev1.Event) {
			s.claim.Status.Phase = corev1.ClaimPending
		}, true},
		"ProvisioningFailed on a bound claim": {claim, "ProvisioningFailed", nil, false},
		"Provisioning on a bound claim":       {claim, "Provisioning", nil, false},

		"VolumeResizeFailed on a claim that wants more": {claim, "VolumeResizeFailed", nil, true},
		"VolumeResizeFailed on a claim that has its size": {claim, "VolumeResizeFailed", func(s trustScene, _ *corev1.Event) {
			s.claim.Status.Capacity = s.claim.Spec.Resources.Requests
		}, false},
		"VolumeResizeFailed of the expansion before": {claim, "VolumeResizeFailed", func(s trustScene, e *corev1.Event) {
			condition(s, corev1.PersistentVolumeClaimResizing, 10*time.Minute)
			e.LastTimestamp = ago(30 * time.Minute)
		}, false},
		"VolumeResizeFailed of this expansion": {claim, "VolumeResizeFailed", func(s trustScene, _ *corev1.Event) {
			condition(s, corev1.PersistentVolumeClaimResizing, 10*time.Minute)
		}, true},
		"FileSystemResizeFailed before the volume was expanded": {claim, "FileSystemResizeFailed", func(s trustScene, e *corev1.Event) {
			condition(s, corev1.PersistentVolumeClaimFileSystemResizePending, 10*time.Minute)
			e.LastTimestamp = ago(30 * time.Minute)
		}, false},
		"FileSystemResizeFailed by the kubelet of a node without a pod of the claim": {claim, "FileSystemResizeFailed", func(_ trustScene, e *corev1.Event) {
			e.Source = corev1.EventSource{Component: "kubelet", Host: "n2"}
		}, false},
		"FileSystemResizeFailed by the kubelet of its pod": {claim, "FileSystemResizeFailed", func(_ trustScene, e *corev1.Event) {
			e.Source = corev1.EventSource{Component: "kubelet", Host: "n1"}
		}, true},

		"VolumeModifyFailed on a claim that wants another class": {claim, "VolumeModifyFailed", nil, true},
		"VolumeModifyFailed on a claim that has its class": {claim, "VolumeModifyFailed", func(s trustScene, _ *corev1.Event) {
			s.claim.Status.CurrentVolumeAttributesClassName = s.claim.Spec.VolumeAttributesClassName
		}, false},
		"VolumeModifyFailed of the modification before": {claim, "VolumeModifyFailed", func(s trustScene, e *corev1.Event) {
			condition(s, corev1.PersistentVolumeClaimVolumeModifyingVolume, 10*time.Minute)
			e.LastTimestamp = ago(30 * time.Minute)
		}, false},

		"FailedAttachVolume, and it is attached": {pod, "FailedAttachVolume", nil, false},
		"FailedAttachVolume, and it is not attached": {pod, "FailedAttachVolume", func(s trustScene, _ *corev1.Event) {
			s.va.Status.Attached = false
		}, true},
		"FailedAttachVolume, and its containers run": {pod, "FailedAttachVolume", func(s trustScene, _ *corev1.Event) {
			s.va.Status.Attached, s.pod.Status.Phase = false, corev1.PodRunning
		}, false},
		"FailedMount": {pod, "FailedMount", nil, true},
		"FailedMount of a pod with an image": {pod, "FailedMount", func(s trustScene, _ *corev1.Event) {
			s.pod.Status.ContainerStatuses[0].State.Waiting.Reason = "ErrImagePull"
		}, false},
		"FailedUnMount, and the node uses the volume": {pod, "FailedUnMount", nil, true},
		"FailedUnMount, and the node does not use the volume": {pod, "FailedUnMount", func(s trustScene, _ *corev1.Event) {
			s.node.Status.VolumesInUse = nil
		}, false},
		"FailedUnMount of a volume that is not attached": {pod, "FailedUnMount", func(s trustScene, _ *corev1.Event) {
			no := false
			s.node.Status.VolumesInUse = nil
			s.CSIDrivers = []*storagev1.CSIDriver{{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: storagev1.CSIDriverSpec{AttachRequired: &no}}}
		}, true},

		"VolumeFailedDelete of a released volume": {pv, "VolumeFailedDelete", nil, true},
		"VolumeFailedDelete of a bound volume": {pv, "VolumeFailedDelete", func(s trustScene, _ *corev1.Event) {
			s.pv.Status.Phase = corev1.VolumeBound
		}, false},
		"VolumeFailedDelete before it was released": {pv, "VolumeFailedDelete", func(s trustScene, e *corev1.Event) {
			at := ago(10 * time.Minute)
			s.pv.Status.LastPhaseTransitionTime, e.LastTimestamp = &at, ago(30*time.Minute)
		}, false},

		"about an earlier claim of the name": {claim, "VolumeResizeFailed", func(_ trustScene, e *corev1.Event) { e.InvolvedObject.UID = "old" }, false},
		"older than the claim":               {claim, "VolumeResizeFailed", func(_ trustScene, e *corev1.Event) { e.LastTimestamp = ago(2 * time.Hour) }, false},
		"of the future":                      {claim, "VolumeResizeFailed", func(_ trustScene, e *corev1.Event) { e.LastTimestamp = ago(-time.Hour) }, false},
	} {
		s := newTrustScene()
		event := &corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: string(tc.about.Kind), Namespace: tc.about.Namespace, Name: tc.about.Name},
			Reason:         tc.reason, Message: "run evil.sh as root", LastTimestamp: ago(time.Minute),
		}
		if tc.edit != nil {
			tc.edit(s, event)
		}
		s.Events = []*corev1.Event{event}
		if got := s.Prepare().lastEvent(tc.about, tc.reason) != nil; got != tc.counts {
			t.Errorf("%s: the event counts: %t, want %t", name, got, tc.counts)
		}
	}
}

// An event with a reason that two components use counts where the right one wrote it.
func TestEventsOfAnotherComponent(t *testing.T) {
	s := newTrustScene()
	about := Ref{Claim, "shop", "data"}
	event := &corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "shop", Name: "data"},
		Reason:         "VolumeResizeFailed", Source: corev1.EventSource{Component: "external-resizer d"}, LastTimestamp: ago(time.Minute),
	}
	s.Events = []*corev1.Event{event}
	s.Prepare()
	if s.lastEventNotBy(resizerName, about, event.Reason) != nil || s.lastEventNotBy(kubeletName, about, event.Reason) == nil {
		t.Error("the author of the event does not count")
	}
}
