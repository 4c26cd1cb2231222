package scale

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	protection "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/test/bench/runner"
)

const (
	driverName = "scale.example"
	className  = "scale"
	// labelNew is on the nodes that the new attachments are for.
	labelNew = "bench.purser/new"
	// perNamespace is how many claims and pods a namespace of the large cluster has.
	perNamespace = 500
	// imagesOfNode is how many images a node reports; a kubelet reports up to 50.
	imagesOfNode = 20
)

func namespaceOf(i int) string { return fmt.Sprintf("fill-%03d", i/perNamespace) }
func claimName(i int) string   { return fmt.Sprintf("data-%06d", i) }
func nodeName(i int) string    { return fmt.Sprintf("node-%05d", i) }
func handleOf(i int) string    { return fmt.Sprintf("fill-volume-%06d", i) }

// newNode returns a node as a kubelet registers it, with the volumes that are attached to it.
func newNode(name string, handles ...string) *corev1.Node {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"),
		corev1.ResourcePods: resource.MustParse("110"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelTopologyZone: "a", corev1.LabelOSStable: "linux",
			},
			Annotations: map[string]string{names.AnnManagedAttach: "true"},
		},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}},
			NodeInfo:  corev1.NodeSystemInfo{MachineID: name, KubeletVersion: "v1.37.2", OperatingSystem: "linux"},
		},
	}
	for _, kind := range []corev1.NodeConditionType{
		corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
	} {
		status := corev1.ConditionFalse
		if kind == corev1.NodeReady {
			status = corev1.ConditionTrue
		}
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: status, LastHeartbeatTime: metav1.Now(), Reason: "Kubelet" + string(kind),
			Message: "kubelet reports the condition " + string(kind),
		})
	}
	for i := range imagesOfNode {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{
			Names: []string{fmt.Sprintf("registry.example/team/image-%02d@sha256:%064d", i, i)}, SizeBytes: 100 << 20,
		})
	}
	for _, handle := range handles {
		volume := corev1.UniqueVolumeName(names.UniqueVolumeName(driverName, handle))
		node.Status.VolumesAttached = append(node.Status.VolumesAttached, corev1.AttachedVolume{Name: volume})
		node.Status.VolumesInUse = append(node.Status.VolumesInUse, volume)
	}
	return node
}

func newCSINode(name string) *storagev1.CSINode {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driverName, NodeID: name}}},
	}
}

// bind completes a claim in memory as a binder writes it.
func bind(claim *corev1.PersistentVolumeClaim, volume string) {
	claim.Spec.VolumeName = volume
	claim.Annotations = map[string]string{
		names.AnnBindCompleted: "yes", names.AnnBoundByController: "yes", names.AnnStorageProvisioner: driverName,
		names.AnnBetaStorageProvisioner: driverName,
	}
}

// boundStatus returns the status of a bound claim, with the condition that a server of this version has.
func boundStatus(users ...string) corev1.PersistentVolumeClaimStatus {
	unused := protection.UnusedCondition(users)
	unused.LastTransitionTime = metav1.Now()
	return corev1.PersistentVolumeClaimStatus{
		Phase: corev1.ClaimBound, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Capacity: runner.Gibibyte(), Conditions: []corev1.PersistentVolumeClaimCondition{unused},
	}
}

func newAttachment(volume, handle, node string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{
			Name:        names.AttachmentName(handle, driverName, node),
			Finalizers:  []string{names.AttacherFinalizer(driverName)},
			Annotations: map[string]string{names.AnnAttachedNodeID: node, names.AnnVolumeHandle: handle},
		},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: driverName, NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
		},
	}
}

// newPod returns a pod that is on a node, with the claim unless its name is empty.
func newPod(name types.NamespacedName, node, claim string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace, Name: name.Name,
			Labels: map[string]string{"app": "scale", "instance": name.Name},
		},
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example/team/image-00:v1.2.3",
				Args: []string{"--config=/etc/config", "--v=2"},
				Env:  []corev1.EnvVar{{Name: "POD_NAME", Value: name.Name}, {Name: "LOG_LEVEL", Value: "info"}},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("100m"),
				}},
			}},
		},
	}
	if claim != "" {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	}
	return pod
}

// runningStatus is what a kubelet reports of a pod with one container.
func runningStatus() corev1.PodStatus {
	now := metav1.Now()
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now, HostIP: "192.0.2.1", PodIP: "198.51.100.1",
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", Ready: true, Image: "registry.example/team/image-00:v1.2.3",
			ImageID: "registry.example/team/image-00@sha256:0",
			State:   corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}},
	}
	for _, kind := range []corev1.PodConditionType{
		corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady,
	} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now,
		})
	}
	return status
}
