package populate

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	populate "github.com/purser-csi/purser/internal/populate/rules"
	"github.com/purser-csi/purser/internal/size"
)

// Where the container finds the volume (VP-2).
const (
	folderPath = "/populate/target"
	devicePath = "/dev/populate-target"
	volumeName = "target"
	secretName = "secret"
	portName   = "progress"
)

// target returns the target of the pod for a claim.
func (c *Controller) target(claim *corev1.PersistentVolumeClaim) Target {
	t := Target{Claim: claim, Path: folderPath}
	if t.Block = isBlock(claim); t.Block {
		t.Path = devicePath
	}
	t.Size = size.Clamp(claim.Spec.Resources.Requests[corev1.ResourceStorage])
	return t
}

func isBlock(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == corev1.PersistentVolumeBlock
}

// newPod returns the pod that writes the data. It has no token, no capability and no more than the volume
// and the secret of the source.
func (c *Controller) newPod(s populate.Snapshot, request Request, failed int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: c.Rules.Marks(s.Claim)}
	pod.Name = populate.PodName(s.UID)
	pod.Annotations[c.Rules.AttemptsAnnotation()] = strconv.Itoa(failed)
	pod.Spec = corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever,
		AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
		SecurityContext: &corev1.PodSecurityContext{
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Affinity:   nearTheNode(s.Claim.Annotations[names.AnnSelectedNode]),
		Containers: []corev1.Container{c.container(request)},
		Volumes: []corev1.Volume{{
			Name: volumeName, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: populate.PrimeName(s.UID)},
			},
		}},
	}
	container := &pod.Spec.Containers[0]
	if isBlock(s.Claim) {
		container.VolumeDevices = []corev1.VolumeDevice{{Name: volumeName, DevicePath: devicePath}}
	} else {
		container.VolumeMounts = []corev1.VolumeMount{{Name: volumeName, MountPath: folderPath}}
	}
	if request.Secret != "" {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: secretName,
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
				SecretName: request.Secret, Optional: new(true), // without it the pod says so, and does not hang
			}},
		})
		container.VolumeMounts = append(container.VolumeMounts,
			corev1.VolumeMount{Name: secretName, MountPath: request.SecretPath, ReadOnly: true})
	}
	return pod
}

// container returns the container without its volumes. It runs as root: an empty filesystem, and a device,
// belong to root. The kubelet expands $(NAME) in arguments, and $$ is a $ for it.
func (c *Controller) container(request Request) corev1.Container {
	args := slices.Clone(request.Args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "$", "$$")
	}
	container := corev1.Container{
		Name: "populate", Image: c.Image, Args: args,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		SecurityContext: &corev1.SecurityContext{
			RunAsUser: new(int64(0)), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	if request.Port != 0 {
		container.Ports = []corev1.ContainerPort{{Name: portName, ContainerPort: request.Port}}
	}
	return container
}

// portOf returns the port at which a pod serves its progress; 0 for none.
func portOf(pod *corev1.Pod) int32 {
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.Name == portName {
				return port.ContainerPort
			}
		}
	}
	return 0
}

// nearTheNode prefers the node that is selected for the user's pod: a volume that one node can have at a time
// need not move. It is no requirement, since the node may be full; upstream sets nodeName, which the
// scheduler does not check (VP-9).
func nearTheNode(node string) *corev1.Affinity {
	if node == "" {
		return nil
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100,
			Preference: corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{
				Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node},
			}}},
		}},
	}}
}
