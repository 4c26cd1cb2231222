package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/e2e/leftover"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// `up --kubelet` runs the containers of a pod with a volume. After SIGKILL the next one on the folder
// ends the containers that were left and starts them again; after Ctrl-C nothing is left.
func TestUpKubelet(t *testing.T) {
	if os.Getenv("KUBELET") == "" {
		t.Skip("KUBELET is not set; run make test-kubelet")
	}
	cfg := stage.Config{DataDir: dataDir(t), Args: []string{"--kubelet"}}
	s := start(t, cfg)
	meta := metav1.ObjectMeta{Namespace: "default", Name: "app"}
	must(t, s.Client.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("32Mi")}},
	}}))
	pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		HostNetwork: true, TerminationGracePeriodSeconds: new(int64(1)),
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "app"},
		}}},
		Containers: []corev1.Container{{
			Name: "c", Image: "purser.local/pause:1", ImagePullPolicy: corev1.PullNever,
			VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}},
		}},
	}}
	must(t, s.Client.Create(t.Context(), pod))
	first := awaitContainer(t, s, pod, "")
	mounted, err := leftover.Mounts(filepath.Join(s.DataDir, "kubelet", "pods", string(pod.UID)))
	if err != nil || len(mounted) == 0 {
		t.Errorf("mounts of the pod: %q, %v", mounted, err)
	}
	s.Kill()
	s = start(t, cfg)
	awaitContainer(t, s, pod, first)
	stop(t, s)
	if tasks, err := filepath.Glob(filepath.Join(s.DataDir, "containerd", "state", "io.containerd.runtime.v2.task", "k8s.io", "*")); err != nil || len(tasks) > 0 {
		t.Errorf("containers are left: %q, %v", tasks, err)
	}
}

// awaitContainer waits until the pod has a running container other than the previous one.
func awaitContainer(t *testing.T, s *stage.Stage, pod *corev1.Pod, former string) (id string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		for _, c := range pod.Status.ContainerStatuses {
			if c.State.Running != nil && c.ContainerID != former {
				id = c.ContainerID
				return nil
			}
		}
		return fmt.Errorf("the container does not run: %+v", pod.Status.ContainerStatuses)
	})
	return id
}

// Without a container runtime, and with several nodes, `up --kubelet` says so in one line.
func TestUpKubeletMistakes(t *testing.T) {
	t.Parallel()
	purser := filepath.Join(binaries(t), "purser")
	want := []string{"--kubelet", "containerd", "runc", "PATH"}
	if os.Geteuid() != 0 {
		want = []string{"--kubelet", "root"}
	}
	for name, tc := range map[string]struct {
		args []string
		env  []string
		want []string
	}{
		"no runtime":    {nil, []string{"PATH="}, want},
		"several nodes": {[]string{"--nodes", "2"}, nil, []string{"--kubelet", "--nodes"}},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"up", "--kubelet", "--data-dir", filepath.Join(t.TempDir(), "d")}, tc.args...)
			command{path: purser, args: args, env: tc.env}.run(t).mustSay(t, failure, tc.want)
		})
	}
}
