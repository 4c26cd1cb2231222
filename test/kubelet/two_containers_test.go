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
	host, port := r.server()
	const ports = 4
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
		"optional/sidecars.yaml",
	} {
		text, err := os.ReadFile(filepath.Join(root, "deploy", file))
		must(r.t, err)
		objects = append(objects, r.objectsOf(text)...)
	}
	text, err := os.ReadFile(filepath.Join("testdata", "two-containers.yaml"))
	must(r.t, err)
	words := strings.NewReplacer(
		"$TAG$", tag, "$HOST$", host, "$PORT$", port, "$KUBELET$", r.kubeletDir(), "$STATE$", filepath.Join(r.dir, "s"),
		"$HEALTH$", strconv.Itoa(first+2), "$HTTP$", strconv.Itoa(first+3),
	)
	return append(objects, r.objectsOf([]byte(words.Replace(string(text))))...)
}

// A driver needs one container beside its own: its volumes are provisioned, attached, mounted, expanded,
// modified, snapshotted alone and in a group, restored, cloned and deleted.
func TestTwoContainers(t *testing.T) {
	r := newRig(t)
	objects := r.twoContainers()
	r.install(objects, 3)
	r.mustHaveTwoContainers()

	claim := r.newClaim("data", "320Mi")
	claim.Labels = map[string]string{"group": "one"}
	must(t, r.Create(t.Context(), claim))
	writer := r.pod("writer", claim, "write", "/v/hello", "read", "/v/hello", "wait")
	r.awaitRunning(writer)
	r.awaitFile(r.target(r.kubeletDir(), writer, claim))
	r.mustBeAttached(claim, nodeName)

	before := r.blocks(r.target(r.kubeletDir(), writer, claim))
	r.expand(claim, "512Mi")
	if now := r.blocks(r.target(r.kubeletDir(), writer, claim)); now <= before {
		t.Errorf("the filesystem has %d blocks, before the expansion %d", now, before)
	}
	r.modify(claim, "trims")

	snapshot := r.snapshot(claim)
	group := r.groupSnapshot()
	restored := r.claimOf("restored", "512Mi", &snapshot.Name)
	reader := r.pod("reader", restored, "read", "/v/hello")
	r.awaitPhase(reader, corev1.PodSucceeded)
	clone := r.cloneOf(claim, "512Mi")
	cloneReader := r.pod("clone-reader", clone, "read", "/v/hello")
	r.awaitPhase(cloneReader, corev1.PodSucceeded)

	r.remove(group)
	r.remove(writer, reader, cloneReader, snapshot, claim, restored, clone)
	r.awaitNone(&corev1.PersistentVolumeList{}, &storagev1.VolumeAttachmentList{}, &snapshotv1.VolumeSnapshotContentList{},
		&groupv1.VolumeGroupSnapshotContentList{})
	r.removeAttributesClass("trims")
	r.uninstall(objects)
}

// mustHaveTwoContainers fails unless the driver's pod has two containers that never ended.
func (r *rig) mustHaveTwoContainers() {
	r.t.Helper()
	var pods corev1.PodList
	must(r.t, r.List(r.t.Context(), &pods, client.MatchingLabels{"app.kubernetes.io/name": "csi-purser"}))
	if len(pods.Items) != 1 {
		r.t.Fatalf("%d pods of the driver", len(pods.Items))
	}
	var running []string
	for _, c := range pods.Items[0].Status.ContainerStatuses {
		running = append(running, c.Name)
		if c.RestartCount > 0 {
			r.t.Errorf("%s ended %d times: %s", c.Name, c.RestartCount, c.LastTerminationState.String())
		}
	}
	if slices.Sort(running); !slices.Equal(running, []string{"driver", "purser"}) {
		r.t.Errorf("the pod of the driver has the containers %q", running)
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
