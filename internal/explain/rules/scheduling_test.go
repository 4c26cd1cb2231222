package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

const disk = "disk.example.com"

// scene is two nodes in two zones, and a pod without a node whose bound claim has a volume in zone a.
type scene struct {
	*Cluster
	pod   *corev1.Pod
	claim *corev1.PersistentVolumeClaim
	pv    *corev1.PersistentVolume
}

func newScene() scene {
	pv, claim := volumeInZone("pv", "a"), boundClaimOf("c", "pv")
	pod := podWith("p", "c")
	return scene{&Cluster{
		Now: noon, Nodes: []*corev1.Node{nodeInZone("node-a", "a"), nodeInZone("node-b", "b")},
		Volumes: []*corev1.PersistentVolume{pv}, Claims: []*corev1.PersistentVolumeClaim{claim}, Pods: []*corev1.Pod{pod},
	}, pod, claim, pv}
}

func nodeInZone(name, zone string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone}}}
}

func volumeInZone(name, zone string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: disk, VolumeHandle: name}
	pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}}},
	}}}
	return pv
}

func boundClaimOf(name, volume string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	claim.Spec.VolumeName, claim.Status.Phase = volume, corev1.ClaimBound
	return claim
}

func podWith(name string, claims ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: ago(time.Hour)}}
	for _, claim := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	return pod
}

// full has each node take one volume of the driver, and have one.
func full(s scene, nodes ...string) {
	for _, name := range nodes {
		one, other := int32(1), "other-"+name
		s.CSINodes = append(s.CSINodes, &storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: disk, Allocatable: &storagev1.VolumeNodeResources{Count: &one}}}},
		})
		s.Volumes = append(s.Volumes, volumeInZone(other, "a"))
		s.Attachments = append(s.Attachments, &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{
			Attacher: disk, NodeName: name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &other},
		}})
	}
}

func TestScheduling(t *testing.T) {
	for name, tc := range map[string]struct {
		edit   func(scene)
		reason verdict.Reason
		cause  string
	}{
		"no node of the volume is left": { // kubernetes-sigs/sig-storage-local-static-provisioner#201
			func(s scene) { s.Nodes[0].Labels["zone"] = "c" }, verdict.VolumeUnreachable, "pv/pv",
		},
		"the pod may not use a node of the volume": { // kubernetes/kubernetes#74024
			func(s scene) { s.pod.Spec.NodeSelector = map[string]string{"zone": "b"} }, verdict.VolumeUnreachable, "pv/pv",
		},
		"two volumes in two zones": { // kubernetes/kubernetes#49906
			func(s scene) {
				s.Volumes = append(s.Volumes, volumeInZone("far", "b"))
				s.Claims = append(s.Claims, boundClaimOf("d", "far"))
				*s.pod = *podWith("p", "c", "d")
			}, verdict.VolumeUnreachable, "pv/far",
		},
		"ReadWriteOncePod, and another pod has it": { // KEP-2485, kubernetes/kubernetes#103533
			func(s scene) {
				s.claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
				other := podWith("other", "c")
				other.Spec.NodeName = "node-a"
				s.Pods = append(s.Pods, other)
			}, verdict.ClaimUsedByOtherPod, "pod/other -n shop",
		},
		"ReadWriteOncePod, and the other pod has ended": {
			func(s scene) {
				s.claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
				other := podWith("other", "c")
				other.Spec.NodeName, other.Status.Phase = "node-a", corev1.PodSucceeded
				s.Pods = append(s.Pods, other)
			}, verdict.SchedulerSilent, "pod/p -n shop",
		},
		"the only node of the volume is full": { // CSINode.spec.drivers[].allocatable, kubernetes-sigs/aws-ebs-csi-driver#431
			func(s scene) { full(s, "node-a") }, verdict.AttachLimitReached, "csidriver/" + disk,
		},
		"a node that the volume does not reach is full": {
			func(s scene) { full(s, "node-b") }, verdict.SchedulerSilent, "pod/p -n shop",
		},
		"scheduling gates": { // KEP-3521
			func(s scene) { s.pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}} }, verdict.SchedulerSilent, "pod/p -n shop",
		},
		"the scheduler's own words": { // kubernetes/kubernetes#48968
			func(s scene) {
				s.pod.Status.Conditions = []corev1.PodCondition{{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/2 nodes are available: 2 Insufficient cpu.",
				}}
			}, verdict.PodUnschedulable, "pod/p -n shop",
		},
		"just created": {func(s scene) { s.pod.CreationTimestamp = ago(time.Second) }, verdict.WaitForPodScheduled, "pod/p -n shop"},
	} {
		s := newScene()
		tc.edit(s)
		findings := s.Prepare().podScheduling(s.pod)
		if name == "no node of the volume is left" && !strings.Contains(findings[0].WaitsFor, "none has the labels") {
			t.Errorf("%s: it waits for %s", name, findings[0].WaitsFor)
		}
		if len(findings) != 1 || findings[0].Reason != tc.reason || findings[0].Cause.String() != tc.cause {
			t.Errorf("%s: %+v; want %s of %s", name, findings, tc.reason, tc.cause)
		}
	}
}

// What is not a volume's is said to be all only where no volume excludes a node (kubernetes/kubernetes#34583).
func TestNotOnlyTheVolumes(t *testing.T) {
	for limit, want := range map[bool]string{
		false: "its volumes are not the cause", true: "its volumes exclude other nodes only",
	} {
		s := newScene()
		s.pv.Spec.NodeAffinity = nil
		s.Nodes[0].Spec.Unschedulable, s.Nodes[1].Spec.Unschedulable = true, !limit
		if limit {
			full(s, "node-b")
		}
		var text string
		for _, f := range s.Prepare().podScheduling(s.pod) {
			text += f.WaitsFor + "\n"
		}
		if !strings.Contains(text, want) {
			t.Errorf("limit %v: %s, want %s", limit, text, want)
		}
	}
}

// Each rule of matching that a volume does not meet is named, with both values (1.9).
func TestNearMisses(t *testing.T) {
	for field, edit := range map[string]func(*corev1.PersistentVolume, *corev1.PersistentVolumeClaim){
		"": func(*corev1.PersistentVolume, *corev1.PersistentVolumeClaim) {},
		"spec.claimRef": func(pv *corev1.PersistentVolume, _ *corev1.PersistentVolumeClaim) {
			pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "c", UID: "former"} // kubernetes/kubernetes#48609
		},
		"metadata.deletionTimestamp": func(pv *corev1.PersistentVolume, _ *corev1.PersistentVolumeClaim) {
			at := ago(0)
			pv.DeletionTimestamp = &at
		},
		"spec.storageClassName": func(pv *corev1.PersistentVolume, _ *corev1.PersistentVolumeClaim) { pv.Spec.StorageClassName = "gold" },
		"spec.capacity.storage": func(_ *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) {
			claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		},
		"spec.volumeMode": func(pv *corev1.PersistentVolume, _ *corev1.PersistentVolumeClaim) {
			block := corev1.PersistentVolumeBlock
			pv.Spec.VolumeMode = &block
		},
		"spec.accessModes": func(_ *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) {
			claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		},
		"metadata.labels": func(_ *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) {
			claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "db"}}
		},
	} {
		pv, claim := &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "c", UID: "u"}}
		edit(pv, claim)
		got := ""
		for _, e := range compare(pv, claim) {
			got += e.Field
		}
		if got != field {
			t.Errorf("differences %q, want %q", got, field)
		}
	}
}
