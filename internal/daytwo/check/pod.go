package check

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

// meta returns the metadata of an object of the check.
func (cfg Config) meta(suffix string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: cfg.Namespace, Name: cfg.Name + suffix,
		Labels: map[string]string{names.LabelCheck: cfg.Name, names.LabelManagedBy: names.ManagedByPurser},
	}
}

const (
	file    = "/data/purser-check"
	answers = "answer" // the container whose termination message is the checksum
	user    = 65534
)

// script is what a pod does with the volume before it waits.
type script struct{ write bool }

// text returns the commands for a shell. The checksum is the termination message.
func (s script) text() string {
	lines := []string{"set -e"}
	if s.write {
		lines = append(lines, "dd if=/dev/urandom of="+file+" bs=65536 count=16 2>/dev/null", "sync")
	}
	return strings.Join(append(lines, "sha256sum "+file+" | cut -c1-64 > /dev/termination-log"), "\n")
}

// pod returns a pod that does the script in its first container, and keeps the volume mounted after
// that. It meets the restricted security standard, except with the network of its node.
func (cfg Config) pod(suffix string, s script) *corev1.Pod {
	container := func(name, command string) corev1.Container {
		return corev1.Container{
			Name: name, Image: cfg.Image, Command: []string{"/bin/sh", "-c", command},
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false),
				Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		}
	}
	return &corev1.Pod{
		ObjectMeta: cfg.meta(suffix),
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false),
			TerminationGracePeriodSeconds: new(int64(1)), HostNetwork: cfg.HostNetwork,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(user)), FSGroup: new(int64(user)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			InitContainers: []corev1.Container{container(answers, s.text())},
			Containers:     []corev1.Container{container("wait", "trap exit TERM; sleep 86400 & wait")},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: cfg.Name + suffix},
			}}},
		},
	}
}

// mounted waits until a pod has its volumes: its first container has begun, or, on a node without a
// kubelet, it is reported as running.
func (r *run) mounted(ctx context.Context, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := r.until(ctx, func(ctx context.Context) (string, error) {
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, pod); err != nil {
			return "", err
		}
		if s := answerStatus(pod); pod.Status.Phase != corev1.PodPending || s != nil && (s.Running != nil ||
			s.Terminated != nil) {
			return "", nil
		}
		return fmt.Sprintf("pod/%s is %s%s", name, pod.Status.Phase, r.lastEvent(ctx, pod.UID)), nil
	})
	return pod, err
}

// answerOf waits for the checksum that a pod has computed. It is skipped if the node of the pod
// runs no containers.
func (r *run) answerOf(ctx context.Context, name string) (sum string, err error) {
	pod := &corev1.Pod{}
	err = r.until(ctx, func(ctx context.Context) (string, error) {
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, pod); err != nil {
			return "", err
		}
		if err := r.hasKubelet(ctx, pod); err != nil {
			return "", err
		}
		s := answerStatus(pod)
		switch {
		case s != nil && s.Terminated != nil && s.Terminated.ExitCode == 0:
			sum = strings.TrimSpace(s.Terminated.Message)
			if len(sum) != sumDigits {
				return "", stopped{fmt.Errorf("pod/%s answered %q, which is no SHA-256", name, sum)}
			}
			return "", nil
		case s != nil && s.Terminated != nil:
			end := s.Terminated
			return "", stopped{fmt.Errorf("pod/%s: exit code %d: %s", name, end.ExitCode, end.Message)}
		case s != nil && s.Waiting != nil:
			return fmt.Sprintf("pod/%s: %s: %s", name, s.Waiting.Reason, s.Waiting.Message), nil
		}
		return "pod/" + name + " runs", nil
	})
	return sum, err
}

const sumDigits = 64

// hasKubelet skips what containers do if the node of the pod runs none.
func (r *run) hasKubelet(ctx context.Context, pod *corev1.Pod) error {
	node := &corev1.Node{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node); err != nil {
		return err
	}
	if node.Status.NodeInfo.KubeletVersion == "" {
		return skipped("node " + node.Name + " has no kubelet: volumes are mounted there, and containers do not run")
	}
	return nil
}

// answerStatus returns the state of the container that computes the checksum; nil before it has
// one.
func answerStatus(pod *corev1.Pod) *corev1.ContainerState {
	for i := range pod.Status.InitContainerStatuses {
		if s := &pod.Status.InitContainerStatuses[i]; s.Name == answers {
			return &s.State
		}
	}
	return nil
}

// remade deletes the pod of the claim, and makes it again when it is gone: its volume is not
// mounted in between.
func (r *run) remade(ctx context.Context) error {
	pod := r.pod("", script{})
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, pod.DeepCopy())); err != nil {
		return err
	}
	err := r.until(ctx, func(ctx context.Context) (string, error) {
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "pod/" + pod.Name + " is still there", err
	})
	if err != nil {
		return err
	}
	return r.Client.Create(ctx, pod)
}
