package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mounting "github.com/purser-csi/purser/internal/node/rules"
	"github.com/purser-csi/purser/internal/record"
	"github.com/purser-csi/purser/test/containers"
	"github.com/purser-csi/purser/test/e2e/leftover"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// All controllers of `up` with a real kubelet: containers write and read on ext4, xfs and a raw
// device, below a subPath, with an fsGroup, while the volume is expanded, and from a snapshot. Each
// volume is attached first, by our attach-detach controller and our attacher.
func TestUpKubeletVolumes(t *testing.T) {
	if os.Getenv("KUBELET") == "" {
		t.Skip("KUBELET is not set; run make test-kubelet")
	}
	s := start(t, stage.Config{DataDir: dataDir(t), Args: []string{"--kubelet", "--attach-required"}})
	importApp(t, s.DataDir)
	path := filepath.Join(t.TempDir(), "kubelet.jsonl.gz")
	recorder := recordInto(t, s, path)
	b := kubeletNamespace{newTestNamespace(t, s), mounting.Layout{Root: filepath.Join(s.DataDir, "kubelet")}}
	class := b.class(t, nil)

	group := func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(1000)), FSGroup: new(int64(4321))}
		p.Spec.Containers[0].VolumeMounts[0].SubPath = "sub"
	}
	claim := b.sized(t, "data", class.Name, "32Mi")
	writer := b.run(t, claim, []string{"write", "/v/hello", "read", "/v/hello", "wait"}, group)
	awaitContainer(t, s, writer, "")
	b.mustBeAttached(t, claim)
	file := filepath.Join(b.target(writer, claim), "sub", "hello")
	eventually(t, func(ctx context.Context) error { // the pod may be running before its first write
		info, err := os.Stat(file)
		if err != nil {
			return fmt.Errorf("%w; events of the pod:\n%s", err, b.story(ctx, writer))
		}
		if owner := info.Sys().(*syscall.Stat_t); owner.Uid != 1000 || owner.Gid != 4321 {
			return fmt.Errorf("%s has owner %d and group %d", file, owner.Uid, owner.Gid)
		}
		return nil
	})

	b.snapshotOf(t, claim)
	restored := b.newClaim("restored", class.Name)
	restored.Spec.Resources = claim.Spec.Resources
	restored.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: new("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: claim.Name}
	must(t, b.Client.Create(t.Context(), restored))
	reader := b.run(t, restored, []string{"read", "/v/hello"}, group, func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever })
	b.awaitPhase(t, reader, corev1.PodSucceeded)

	other := newTestNamespace(t, s)
	xfsClass := other.class(t, func(c *storagev1.StorageClass) {
		c.AllowVolumeExpansion = new(true)
		c.Parameters = map[string]string{"csi.storage.k8s.io/fstype": "xfs"}
	})
	big := b.sized(t, "big", xfsClass.Name, "320Mi")
	xfs := b.run(t, big, []string{"write", "/v/hello", "read", "/v/hello", "wait"})
	container := awaitContainer(t, s, xfs, "")
	b.awaitBound(t, big)
	before := b.statfs(t, xfs, big)
	if before.Type != unix.XFS_SUPER_MAGIC {
		t.Errorf("the filesystem has the type %x", before.Type)
	}
	b.ask(t, big, "512Mi")
	want := resource.MustParse("512Mi")
	b.awaitClaim(t, big, "the volume has 512Mi", func() bool { return big.Status.Capacity.Storage().Cmp(want) == 0 })
	if now := b.statfs(t, xfs, big); now.Blocks <= before.Blocks {
		t.Errorf("the filesystem has %d blocks, before the expansion %d", now.Blocks, before.Blocks)
	}
	if now := awaitContainer(t, s, xfs, ""); now != container {
		t.Errorf("the container was started again: %s, before %s", now, container)
	}

	raw := b.newClaim("raw", class.Name)
	raw.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	must(t, b.Client.Create(t.Context(), raw))
	device := b.run(t, raw, []string{"write", "/dev/v", "read", "/dev/v", "wait"}, func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.VolumeMounts, c.VolumeDevices = nil, []corev1.VolumeDevice{{Name: "v", DevicePath: "/dev/v"}}
	})
	awaitContainer(t, s, device, "")

	for _, pod := range []*corev1.Pod{writer, reader, xfs, device} {
		b.delete(t, pod)
	}
	for _, pod := range []*corev1.Pod{writer, reader, xfs, device} {
		b.awaitGone(t, pod)
	}
	b.awaitDetached(t)
	eventually(t, func(context.Context) error {
		mounts, err := leftover.Mounts(b.layout.Plugins())
		if err == nil && len(mounts) > 0 {
			err = fmt.Errorf("still mounted: %q", mounts)
		}
		return err
	})
	for _, claim := range []*corev1.PersistentVolumeClaim{claim, restored, raw} {
		b.delete(t, claim)
	}
	for _, claim := range []*corev1.PersistentVolumeClaim{claim, restored, raw} {
		b.awaitGone(t, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID)}})
	}
	recorder()
	text, err := os.ReadFile(path)
	must(t, err)
	r, err := record.Load(map[string][]byte{path: text})
	must(t, err)
	attributedTimes(t, r, b.name, len(r.History().Claims(b.name)), 1)
	stop(t, s)
}

// importApp imports the test image into the containerd of an `up`.
func importApp(t *testing.T, dir string) {
	t.Helper()
	archive, err := containers.Image(t.TempDir())
	must(t, err)
	path := filepath.Join(t.TempDir(), "image.tar")
	must(t, os.WriteFile(path, archive, 0o600))
	ctr := exec.CommandContext(t.Context(), "ctr", "--address", filepath.Join(dir, "containerd", "c.sock"), "--namespace", "k8s.io", "images", "import", path)
	if out, err := ctr.CombinedOutput(); err != nil {
		t.Fatalf("import the image: %v: %s", err, out)
	}
}

// kubeletNamespace is a namespace of an `up` with a kubelet.
type kubeletNamespace struct {
	testNamespace
	layout mounting.Layout
}

func (b kubeletNamespace) sized(t *testing.T, name, class, size string) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim := b.newClaim(name, class)
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	must(t, b.Client.Create(t.Context(), claim))
	return claim
}

// run creates a pod whose container has the claim's volume at /v.
func (b kubeletNamespace) run(t *testing.T, claim *corev1.PersistentVolumeClaim, args []string, edits ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: claim.Name}, Spec: corev1.PodSpec{
		HostNetwork: true, TerminationGracePeriodSeconds: new(int64(1)), AutomountServiceAccountToken: new(false),
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}}},
		Containers: []corev1.Container{{
			Name: "c", Image: containers.Name, ImagePullPolicy: corev1.PullNever, Args: args,
			VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}},
		}},
	}}
	for _, edit := range edits {
		edit(pod)
	}
	must(t, b.Client.Create(t.Context(), pod))
	return pod
}

func (b kubeletNamespace) awaitPhase(t *testing.T, pod *corev1.Pod, phase corev1.PodPhase) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		if err := b.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Status.Phase != phase {
			return fmt.Errorf("pod %s is %s; its events:\n%s", pod.Name, pod.Status.Phase, b.story(ctx, pod))
		}
		return nil
	})
}

// snapshotOf takes a snapshot with the claim's name.
func (b kubeletNamespace) snapshotOf(t *testing.T, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	class := &snapshotv1.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: b.name}, Driver: builtIn, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
	}
	must(t, b.Client.Create(t.Context(), class))
	vs := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: claim.Name}, Spec: snapshotv1.VolumeSnapshotSpec{
		VolumeSnapshotClassName: &class.Name, Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim.Name},
	}}
	must(t, b.Client.Create(t.Context(), vs))
	b.awaitUsable(t, vs)
}

func (b kubeletNamespace) target(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) string {
	return b.layout.Target(mounting.ID{Pod: pod.UID, Spec: claim.Spec.VolumeName, Mode: mounting.Filesystem})
}

func (b kubeletNamespace) statfs(t *testing.T, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) unix.Statfs_t {
	t.Helper()
	must(t, b.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
	var got unix.Statfs_t
	must(t, unix.Statfs(b.target(pod, claim), &got))
	return got
}

// mustBeAttached reads the claim, and fails unless its volume is attached.
func (b kubeletNamespace) mustBeAttached(t *testing.T, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	must(t, b.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
	var list storagev1.VolumeAttachmentList
	must(t, b.Client.List(t.Context(), &list))
	for i := range list.Items {
		if name := list.Items[i].Spec.Source.PersistentVolumeName; name != nil && *name == claim.Spec.VolumeName && list.Items[i].Status.Attached {
			return
		}
	}
	t.Errorf("no VolumeAttachment of volume %s is attached", claim.Spec.VolumeName)
}

func (b kubeletNamespace) awaitDetached(t *testing.T) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		var list storagev1.VolumeAttachmentList
		if err := b.Client.List(ctx, &list); err != nil || len(list.Items) == 0 {
			return err
		}
		return fmt.Errorf("VolumeAttachment %s is left", list.Items[0].Name)
	})
}
