package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr/funcr"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	agent "github.com/purser-csi/purser/internal/node"
	mounting "github.com/purser-csi/purser/internal/node/rules"
	"github.com/purser-csi/purser/internal/roles/node"
	"github.com/purser-csi/purser/test/containers"
)

// secondNode is a virtual node: its volumes are mounted by an agent, and its containers do not run.
const secondNode = "second"

// secondDir is in the kubelet's folder, which is what the pod of the driver sees.
func (r *rig) secondDir() string { return filepath.Join(r.kubeletDir(), secondNode) }

// pod creates a pod whose container has the claim's volume at /v. One named moved is on the second node.
func (r *rig) pod(name string, claim *corev1.PersistentVolumeClaim, args ...string) *corev1.Pod {
	r.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{
		HostNetwork: true, TerminationGracePeriodSeconds: new(int64(1)), AutomountServiceAccountToken: new(false),
		RestartPolicy: corev1.RestartPolicyNever,
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}}},
		Containers: []corev1.Container{{
			Name: "c", Image: containers.Name, ImagePullPolicy: corev1.PullNever, Args: args,
			VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}},
		}},
	}}
	if name == "moved" {
		pod.Spec.NodeName = secondNode
	}
	must(r.t, r.Create(r.t.Context(), pod))
	return pod
}

func (r *rig) awaitRunning(pod *corev1.Pod) {
	r.t.Helper()
	r.awaitPhase(pod, corev1.PodRunning)
}

func (r *rig) awaitPhase(pod *corev1.Pod, phase corev1.PodPhase) {
	r.t.Helper()
	r.eventually(func(ctx context.Context) error {
		if err := r.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Status.Phase != phase {
			return fmt.Errorf("pod %s is not %s: %s", pod.Name, phase, r.story(ctx, []corev1.Pod{*pod}))
		}
		return nil
	})
}

// target returns the folder of the claim's volume in the pod, below a node's folder.
func (r *rig) target(dir string, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) string {
	r.t.Helper()
	must(r.t, r.Get(r.t.Context(), client.ObjectKeyFromObject(claim), claim))
	return mounting.Layout{Root: dir}.Target(mounting.ID{Pod: pod.UID, Spec: claim.Spec.VolumeName, Mode: mounting.Filesystem})
}

// awaitFile waits until what the container wrote is there.
func (r *rig) awaitFile(target string) {
	r.t.Helper()
	r.eventually(func(ctx context.Context) error {
		info, err := os.Stat(filepath.Join(target, "hello"))
		if err != nil {
			return fmt.Errorf("%w\n%s", err, r.story(ctx, nil))
		}
		if info.Size() == 0 {
			return fmt.Errorf("%s is empty", info.Name())
		}
		return nil
	})
}

func (r *rig) blocks(target string) uint64 {
	r.t.Helper()
	var got unix.Statfs_t
	must(r.t, unix.Statfs(target, &got))
	return got.Blocks
}

// snapshot takes a snapshot of the claim's volume.
func (r *rig) snapshot(claim *corev1.PersistentVolumeClaim) *snapshotv1.VolumeSnapshot {
	r.t.Helper()
	return r.snapshotNamed("then", claim)
}

func (r *rig) snapshotNamed(name string, claim *corev1.PersistentVolumeClaim) *snapshotv1.VolumeSnapshot {
	r.t.Helper()
	vs := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: name}, Spec: snapshotv1.VolumeSnapshotSpec{
		VolumeSnapshotClassName: new("fast"), Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim.Name},
	}}
	must(r.t, r.Create(r.t.Context(), vs))
	r.eventually(func(ctx context.Context) error {
		if err := r.Get(ctx, client.ObjectKeyFromObject(vs), vs); err != nil {
			return err
		}
		if vs.Status == nil || vs.Status.ReadyToUse == nil || !*vs.Status.ReadyToUse {
			return fmt.Errorf("the snapshot is not ready: %+v\n%s", vs.Status, r.story(ctx, nil))
		}
		return nil
	})
	return vs
}

// expand has the claim's volume and its filesystem expanded.
func (r *rig) expand(claim *corev1.PersistentVolumeClaim, size string) {
	r.t.Helper()
	want := resource.MustParse(size)
	must(r.t, r.Get(r.t.Context(), client.ObjectKeyFromObject(claim), claim))
	before := claim.DeepCopy()
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = want
	must(r.t, r.Patch(r.t.Context(), claim, client.MergeFrom(before))) // the controllers write too
	r.eventually(func(ctx context.Context) error {
		if err := r.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if got := claim.Status.Capacity.Storage(); got.Cmp(want) < 0 {
			return fmt.Errorf("the claim has %s: %+v\n%s", got, claim.Status.Conditions, r.story(ctx, nil))
		}
		return nil
	})
}

// modify waits until the volume of a claim has a VolumeAttributesClass.
func (r *rig) modify(claim *corev1.PersistentVolumeClaim, class string) {
	r.t.Helper()
	must(r.t, r.Get(r.t.Context(), client.ObjectKeyFromObject(claim), claim))
	before := claim.DeepCopy()
	claim.Spec.VolumeAttributesClassName = &class
	must(r.t, r.Patch(r.t.Context(), claim, client.MergeFrom(before))) // the controllers write too
	r.eventually(func(ctx context.Context) error {
		if err := r.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if has := claim.Status.CurrentVolumeAttributesClassName; has == nil || *has != class {
			return fmt.Errorf("the claim has %v: %+v\n%s", has, claim.Status.ModifyVolumeStatus, r.story(ctx, nil))
		}
		return nil
	})
}

// startSecondNode makes the second node and starts its agent, which uses the driver of the first.
func (r *rig) startSecondNode() (stop func()) {
	r.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: secondNode, Annotations: map[string]string{names.AnnManagedAttach: "true"},
		Labels: map[string]string{corev1.LabelHostname: secondNode},
	}}
	csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: secondNode}, Spec: storagev1.CSINodeSpec{
		Drivers: []storagev1.CSINodeDriver{{Name: driverName, NodeID: secondNode}},
	}}
	must(r.t, r.Create(r.t.Context(), n))
	must(r.t, r.Create(r.t.Context(), csi))
	role := node.New()
	role.API, role.Log = r.cluster.RESTConfig(), funcr.New(func(string, string) {}, funcr.Options{})
	role.Several = []node.Place{{Name: secondNode, Root: r.secondDir(), Given: []agent.GivenDriver{{
		Name: driverName, Endpoint: "unix://" + filepath.Join(r.kubeletDir(), "plugins", driverName, "csi.sock"),
	}}}}
	must(r.t, role.Validate())
	started, done := make(chan struct{}), make(chan error, 1)
	role.Started = func() { close(started) }
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	go func() { done <- role.Run(ctx) }()
	r.t.Cleanup(cancel)
	select {
	case <-started:
	case err := <-done:
		r.t.Fatalf("the agent has ended: %v", err)
	case <-time.After(patience):
		r.t.Fatal("the agent does not start")
	}
	return func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
		r.remove(n, csi)
	}
}

// mustBeAttached fails unless the claim's volume is attached to this node alone.
func (r *rig) mustBeAttached(claim *corev1.PersistentVolumeClaim, nodeName string) {
	r.t.Helper()
	var list storagev1.VolumeAttachmentList
	must(r.t, r.List(r.t.Context(), &list))
	var on []string
	for i := range list.Items {
		va := &list.Items[i]
		if name := va.Spec.Source.PersistentVolumeName; name != nil && *name == claim.Spec.VolumeName && va.Status.Attached {
			on = append(on, va.Spec.NodeName)
		}
	}
	if len(on) != 1 || on[0] != nodeName {
		r.t.Errorf("the volume is attached to %q", on)
	}
}

// remove deletes objects in order, and waits until each is gone.
func (r *rig) remove(objects ...client.Object) {
	r.t.Helper()
	for _, object := range objects {
		must(r.t, client.IgnoreNotFound(r.Delete(r.t.Context(), object)))
		r.awaitGone(object)
	}
}

func (r *rig) awaitGone(object client.Object) {
	r.t.Helper()
	r.eventually(func(ctx context.Context) error {
		err := r.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%T %s is there, with the finalizers %q: %w\n%s",
			object, object.GetName(), object.GetFinalizers(), err, r.story(ctx, nil))
	})
}

// awaitNone waits until there are no objects of these kinds.
func (r *rig) awaitNone(lists ...client.ObjectList) {
	r.t.Helper()
	for _, list := range lists {
		r.awaitCount(list, 0)
	}
}

// awaitCount waits until there is this number of objects of a kind.
func (r *rig) awaitCount(list client.ObjectList, want int) {
	r.t.Helper()
	r.eventually(func(ctx context.Context) error {
		if err := r.List(ctx, list); err != nil {
			return err
		}
		if count := meta.LenList(list); count != want {
			return fmt.Errorf("%d in %T, want %d\n%s", count, list, want, r.story(ctx, nil))
		}
		return nil
	})
}
