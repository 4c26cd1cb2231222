package populate

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	populate "github.com/purser-csi/purser/internal/populate/rules"
)

// The kubelet leaves the arguments as they are, and starts a pod without its Secret, which says so.
func TestPodArguments(t *testing.T) {
	c := &Controller{Config{Rules: populate.Settings{Namespace: "work", Prefix: "p.example.com"}}}
	s := populate.Snapshot{Settings: c.Rules, UID: "u1", Claim: &corev1.PersistentVolumeClaim{}}
	args := []string{"--url=https://h/$(HOME)?a=$b"}
	pod := c.newPod(s, Request{Args: args, Secret: "s", SecretPath: "/s"}, 0)
	if got := pod.Spec.Containers[0].Args; !slices.Equal(got, []string{"--url=https://h/$$(HOME)?a=$$b"}) ||
		args[0] == got[0] {
		t.Errorf("the arguments are %q", got)
	}
	at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Secret != nil })
	if secret := pod.Spec.Volumes[at].Secret; secret.Optional == nil || !*secret.Optional {
		t.Error("without the Secret the pod hangs")
	}
}

// A claim whose class is in the annotation of old claims waits for that class.
func TestClassIndex(t *testing.T) {
	c := &Controller{Config{Rules: populate.Settings{
		Namespace: "work", Prefix: "p.example.com", Kind: kindOfTest.GroupKind(),
	}}}
	claim := newWorld(t).claim
	claim.Spec.StorageClassName = nil
	claim.Annotations = map[string]string{names.AnnBetaStorageClass: "old"}
	for _, index := range c.Indexes() {
		if index.Field == indexClass && !slices.Equal(index.Values(claim), []string{"old"}) {
			t.Errorf("it is indexed by %q", index.Values(claim))
		}
	}
}
