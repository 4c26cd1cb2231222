package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// twoContainers returns the controllers of the cluster by the chart, and a driver whose pods have two
// containers: the driver, without its own registration and probe, and `purser sidecars`, with the
// permissions that deploy/ has for it.
func (r *rig) twoContainers() []*unstructured.Unstructured {
	r.t.Helper()
	must(r.t, r.cluster.Install(r.t.Context(), filepath.Join("..", "live", "testdata", "snapshotmetadataservices.yaml")))
	host, port := r.server()
	const ports = 5
	first := r.freePorts(ports)
	objects := r.render(fmt.Sprintf(`
image: {tag: %s, pullPolicy: Never, onNodes: true}
hostNetwork: true
test: {enabled: false}
apiServer: {host: %q, port: %q}
controllers: {enabled: true, replicas: 1, port: %d}
snapshotController: {enabled: true, replicas: 1, port: %d, extraArgs: [--feature-gates=CSIVolumeGroupSnapshot=true]}
`, tag, host, port, first, first+1))
	for _, file := range []string{
		"rbac/csi-provisioner.yaml", "rbac/csi-attacher.yaml", "rbac/csi-resizer.yaml", "rbac/csi-snapshotter.yaml",
		"rbac/csi-external-health-monitor-controller.yaml", "optional/csi-snapshot-metadata.yaml", "optional/sidecars.yaml",
	} {
		text, err := os.ReadFile(filepath.Join(root, "deploy", file))
		must(r.t, err)
		objects = append(objects, r.objectsOf(text)...)
	}
	cert, key := r.certificate()
	return append(objects, r.filled("two-containers.yaml",
		"$STATE$", r.stateDir(), "$HEALTH$", strconv.Itoa(first+2), "$HTTP$", strconv.Itoa(first+3),
		"$METADATA$", strconv.Itoa(first+4), "$CERT$", cert, "$KEY$", key)...)
}

// filled returns the objects of a manifest in testdata with these words replaced, and those that name the
// cluster.
func (r *rig) filled(manifest string, words ...string) []*unstructured.Unstructured {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", manifest))
	must(r.t, err)
	host, port := r.server()
	words = append(words, "$TAG$", tag, "$HOST$", host, "$PORT$", port, "$KUBELET$", r.kubeletDir())
	return r.objectsOf([]byte(strings.NewReplacer(words...).Replace(string(text))))
}

// A driver needs one container beside its own: its volumes are provisioned, attached, mounted, expanded,
// modified, snapshotted alone and in a group, restored, cloned and deleted; the health of a volume is seen by
// its user, and a backup program copies only the blocks that changed. Beside it, the scripted driver of the
// tests has two containers too.
func TestTwoContainers(t *testing.T) {
	r := newRig(t, "CSIVolumeHealth")
	objects := append(r.twoContainers(), r.scriptedDriver()...)
	r.install(objects, 4)
	r.mustHaveTwoContainers("csi-purser")
	r.mustHaveTwoContainers("csi-scripted")
	r.useScripted()

	claim := r.newClaim("data", "320Mi")
	claim.Labels = map[string]string{"group": "one"}
	must(t, r.Create(t.Context(), claim))
	writer := r.pod("writer", claim, "write", "/v/hello", "read", "/v/hello", "wait")
	r.awaitRunning(writer)
	target := r.target(r.kubeletDir(), writer, claim)
	r.awaitFile(target)
	r.mustBeAttached(claim, nodeName)
	r.loseImage(writer, claim)

	before := r.blocks(target)
	r.expand(claim, "512Mi")
	if now := r.blocks(target); now <= before {
		t.Errorf("the filesystem has %d blocks, before the expansion %d", now, before)
	}
	r.modify(claim, "trims")

	snapshot := r.snapshot(claim)
	later := r.backUp(target, claim, snapshot)
	group := r.groupSnapshot()
	restored := r.claimOf("restored", "512Mi", &snapshot.Name)
	reader := r.pod("reader", restored, "read", "/v/hello")
	r.awaitPhase(reader, corev1.PodSucceeded)
	clone := r.cloneOf(claim, "512Mi")
	cloneReader := r.pod("clone-reader", clone, "read", "/v/hello")
	r.awaitPhase(cloneReader, corev1.PodSucceeded)

	r.remove(group)
	r.remove(writer, reader, cloneReader, snapshot, later, claim, restored, clone)
	r.awaitNone(&corev1.PersistentVolumeList{}, &storagev1.VolumeAttachmentList{}, &snapshotv1.VolumeSnapshotContentList{},
		&groupv1.VolumeGroupSnapshotContentList{})
	r.removeAttributesClass("trims")
	r.uninstall(objects)
}

// mustHaveTwoContainers fails unless the driver's pod has two containers that never ended.
func (r *rig) mustHaveTwoContainers(name string) {
	r.t.Helper()
	var pods corev1.PodList
	must(r.t, r.List(r.t.Context(), &pods, client.MatchingLabels{"app.kubernetes.io/name": name}))
	if len(pods.Items) != 1 {
		r.t.Fatalf("%d pods of %s", len(pods.Items), name)
	}
	var running []string
	for _, c := range pods.Items[0].Status.ContainerStatuses {
		running = append(running, c.Name)
		if c.RestartCount > 0 {
			r.t.Errorf("%s ended %d times: %s", c.Name, c.RestartCount, c.LastTerminationState.String())
		}
	}
	if slices.Sort(running); !slices.Equal(running, []string{"driver", "purser"}) {
		r.t.Errorf("the pod of %s has the containers %q", name, running)
	}
}

// groupSnapshot takes a snapshot of the claims of a group.
func (r *rig) groupSnapshot() *groupv1.VolumeGroupSnapshot {
	r.t.Helper()
	group := &groupv1.VolumeGroupSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "group"},
		Spec: groupv1.VolumeGroupSnapshotSpec{
			VolumeGroupSnapshotClassName: new("fast"),
			Source: groupv1.VolumeGroupSnapshotSource{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"group": "one"}},
			},
		},
	}
	must(r.t, r.Create(r.t.Context(), group))
	r.eventually(func(ctx context.Context) error {
		if err := r.Get(ctx, client.ObjectKeyFromObject(group), group); err != nil {
			return err
		}
		if s := group.Status; s == nil || s.ReadyToUse == nil || !*s.ReadyToUse {
			return fmt.Errorf("the group is not ready: %+v\n%s", s, r.story(ctx, nil))
		}
		return nil
	})
	return group
}

// cloneOf creates a claim with a copy of another one's data.
func (r *rig) cloneOf(source *corev1.PersistentVolumeClaim, size string) *corev1.PersistentVolumeClaim {
	r.t.Helper()
	claim := r.newClaim("clone", size)
	claim.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: source.Name}
	must(r.t, r.Create(r.t.Context(), claim))
	return claim
}
