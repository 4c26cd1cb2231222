package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/e2e/stage"
)

// A volume of the built-in driver is attached for a pod and detached after it. All roles are killed
// three times: after the pod was created, after its volume was attached, and after the pod was
// deleted.
func TestAttachSurvivesKills(t *testing.T) {
	t.Parallel()
	cfg := stage.Config{DataDir: dataDir(t), Args: []string{"--attach-required"}}
	s := start(t, cfg)
	again := func() testNamespace {
		s.Kill()
		sweep(cfg.DataDir)
		s = start(t, cfg)
		return testNamespace{s, "default"}
	}
	b := testNamespace{s, "default"}
	claim := b.claim(t, "attached", "")
	b.awaitBound(t, claim)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: "user"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "none"}}, TerminationGracePeriodSeconds: new(int64(0)),
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
			}}},
		},
	}
	must(t, b.Client.Create(t.Context(), pod))
	b = again()
	b.awaitListed(t, 1)
	b = again()
	b.awaitListed(t, 1)
	b.delete(t, pod)
	b = again()
	b.awaitListed(t, 0)
	eventually(t, func(ctx context.Context) error {
		var list storagev1.VolumeAttachmentList
		if err := b.Client.List(ctx, &list); err != nil || len(list.Items) == 0 {
			return err
		}
		return fmt.Errorf("VolumeAttachment %s is left", list.Items[0].Name)
	})
	b.delete(t, claim)
	b.awaitGone(t, claim)
}

// awaitListed waits until the node's status lists so many volumes.
func (b testNamespace) awaitListed(t *testing.T, want int) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		node := &corev1.Node{}
		if err := b.Client.Get(ctx, client.ObjectKey{Name: "purser"}, node); err != nil {
			return err
		}
		if len(node.Status.VolumesAttached) != want {
			return fmt.Errorf("node %s lists %v, want %d volumes", node.Name, node.Status.VolumesAttached, want)
		}
		return nil
	})
}
