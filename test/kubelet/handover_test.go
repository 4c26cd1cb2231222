package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster/kubelet"
	"github.com/purser-csi/purser/internal/roles/process"
)

// upstreams are upstream's sidecars that have Go modules, with the name of the component of Purser that each
// takes the place of.
var upstreams = []struct{ name, component string }{
	{"csi-provisioner", "provisioner"},
	{"csi-attacher", "attacher"},
	{"csi-resizer", "resizer"},
	{"csi-snapshotter", "snapshotter"},
}

func upstreamFile(name string) string { return filepath.Join(root, "bin", "upstream-"+name) }

// upstreamImage is the name of the image of one of upstream's programs.
func upstreamImage(name string) string { return "purser.local/" + name + ":upstream" }

// The controllers of Purser are replaced by upstream's sidecars and put back, while pods use volumes. What was
// made under each is used and deleted under the other, and nothing is left.
func TestHandOver(t *testing.T) {
	for _, upstream := range upstreams {
		if _, err := os.Stat(upstreamFile(upstream.name)); err != nil {
			t.Skipf("upstream's program is not built; run tools/build.sh bin upstream-%s: %v", upstream.name, err)
		}
	}
	r := newRig(t, "CSIVolumeHealth")
	objects := r.twoContainers()
	r.importUpstreams()
	r.install(objects, 3)
	early, kept := r.claim("early", nil), r.claim("kept", nil)
	earlyUser, keptUser := r.writer(early), r.writer(kept)
	snapshot := r.snapshot(early)

	ours := r.template()
	r.rollOut(withUpstreams(ours))
	late := r.claim("late", nil)
	lateUser := r.writer(late)
	lateSnapshot := r.snapshotNamed("late", late)
	restored := r.claimOf("restored", "320Mi", &snapshot.Name)
	reader := r.pod("reader", restored, "read", "/v/hello")
	r.awaitPhase(reader, corev1.PodSucceeded)
	r.expand(kept, "512Mi")
	r.remove(earlyUser, reader, snapshot, early)
	r.mustHave(3, 2, 1)         // of kept, late and restored
	r.loseImage(keptUser, kept) // the health monitor is Purser's

	r.rollOut(ours)
	r.mustHaveTwoContainers("csi-purser")
	r.awaitFile(r.target(r.kubeletDir(), keptUser, kept))
	r.expand(late, "512Mi")
	again := r.claimOf("again", "320Mi", &lateSnapshot.Name)
	reader = r.pod("reader", again, "read", "/v/hello")
	r.awaitPhase(reader, corev1.PodSucceeded)
	r.remove(keptUser)
	reader2 := r.pod("reader-2", kept, "read", "/v/hello")
	r.awaitPhase(reader2, corev1.PodSucceeded)
	r.remove(lateUser, reader, reader2, lateSnapshot, late, restored, again, kept)
	r.mustHave(0, 0, 0)
	r.removeAttributesClass("trims")
	r.remove(upstreamLeases()...)
	r.uninstall(objects)
}

// upstreamLeases are the Leases that only upstream's sidecars have. Its csi-snapshotter may end without giving
// its own back, also with the gate.
func upstreamLeases() (all []client.Object) {
	for _, name := range []string{"external-attacher-leader-", "external-resizer-", "external-snapshotter-leader-"} {
		all = append(all, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: process.SystemNamespace, Name: name + "csi-purser",
		}})
	}
	return all
}

// writer runs a pod that has written to the claim's volume, which is attached.
func (r *rig) writer(claim *corev1.PersistentVolumeClaim) *corev1.Pod {
	r.t.Helper()
	pod := r.pod(claim.Name+"-user", claim, "write", "/v/hello", "read", "/v/hello", "wait")
	r.awaitRunning(pod)
	r.awaitFile(r.target(r.kubeletDir(), pod, claim))
	r.mustBeAttached(claim, nodeName)
	return pod
}

// mustHave waits until there are so many volumes, attachments and contents of snapshots.
func (r *rig) mustHave(volumes, attachments, contents int) {
	r.t.Helper()
	r.awaitCount(&corev1.PersistentVolumeList{}, volumes)
	r.awaitCount(&storagev1.VolumeAttachmentList{}, attachments)
	r.awaitCount(&snapshotv1.VolumeSnapshotContentList{}, contents)
}

// importUpstreams makes an image of each of upstream's programs.
func (r *rig) importUpstreams() {
	r.t.Helper()
	for _, upstream := range upstreams {
		program, err := os.ReadFile(upstreamFile(upstream.name))
		must(r.t, err)
		image, err := kubelet.Image(upstreamImage(upstream.name), program)
		must(r.t, err)
		must(r.t, r.runtime.Import(r.t.Context(), image))
	}
}

// driverSet is the DaemonSet of the driver.
func (r *rig) driverSet() *appsv1.DaemonSet {
	r.t.Helper()
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: process.SystemNamespace, Name: "csi-purser"}}
	must(r.t, r.Get(r.t.Context(), client.ObjectKeyFromObject(set), set))
	return set
}

// template returns the containers of the driver's pod.
func (r *rig) template() []corev1.Container {
	r.t.Helper()
	return r.driverSet().Spec.Template.Spec.Containers
}

// withUpstreams returns the containers with upstream's sidecars in place of the controllers of Purser, which
// keeps the node's half, the health monitor and the snapshot metadata.
func withUpstreams(ours []corev1.Container) []corev1.Container {
	all := slices.Clone(ours)
	at := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == "purser" })
	purser := *all[at].DeepCopy()
	var without []string
	for _, upstream := range upstreams {
		without = append(without, upstream.component)
		all = append(all, corev1.Container{
			Name: upstream.name, Image: upstreamImage(upstream.name), ImagePullPolicy: corev1.PullNever, Env: purser.Env,
			// The gate is off in upstream's, and the next leader has to wait until the lease expires.
			Args: []string{
				"--csi-address=/csi/csi.sock", "--leader-election", "--leader-election-namespace=" + process.SystemNamespace,
				"--feature-gates=ReleaseLeaderElectionOnExit=true",
			},
			VolumeMounts: purser.VolumeMounts,
		})
	}
	purser.Args = append(purser.Args, "--without="+strings.Join(without, ","))
	all[at] = purser
	return all
}

// rollOut changes the containers of the driver's pod, and waits until the new pod is ready.
func (r *rig) rollOut(containers []corev1.Container) {
	r.t.Helper()
	set := r.driverSet()
	before := set.DeepCopy()
	set.Spec.Template.Spec.Containers = containers
	must(r.t, r.Patch(r.t.Context(), set, client.MergeFrom(before)))
	r.eventually(func(ctx context.Context) error {
		if err := r.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		var pods corev1.PodList
		if err := r.List(ctx, &pods, client.MatchingLabels(set.Spec.Selector.MatchLabels)); err != nil {
			return err
		}
		now := set.Status
		if len(pods.Items) == 1 && now.ObservedGeneration == set.Generation && now.UpdatedNumberScheduled == 1 &&
			len(pods.Items[0].Spec.Containers) == len(containers) && isReady(&pods.Items[0]) {
			return nil
		}
		return fmt.Errorf("the driver's pod is not rolled out: %+v\n%s", now, r.story(ctx, pods.Items))
	})
}
