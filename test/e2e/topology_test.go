package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/verdict"
	"github.com/purser-csi/purser/test/e2e/scrape"
	"github.com/purser-csi/purser/test/e2e/stage"
)

const zoneLabel = corev1.LabelTopologyZone

// zoneOf returns the zone that the node affinity of a volume names.
func zoneOf(pv *corev1.PersistentVolume) string {
	if pv.Spec.NodeAffinity == nil {
		return ""
	}
	for _, e := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions {
		if e.Key == zoneLabel {
			return e.Values[0]
		}
	}
	return ""
}

// podFor returns a pod that uses the claim, in one zone or in any.
func (b testNamespace) podFor(claim *corev1.PersistentVolumeClaim, zone string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: claim.Name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "none"}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
			}}},
		},
	}
	if zone != "" {
		pod.Spec.NodeSelector = map[string]string{zoneLabel: zone}
	}
	return pod
}

// sized creates a claim of the default class, which has WaitForFirstConsumer in a cluster with
// zones.
func (b testNamespace) sized(t *testing.T, name, size string) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim := b.newClaim(name, "")
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size)
	must(t, b.Client.Create(t.Context(), claim))
	return claim
}

// TestZones is a cluster of six virtual nodes in three zones of 100 MiB each, with the real
// scheduler. Where there is room, each volume takes one call of CreateVolume.
func TestZones(t *testing.T) {
	t.Parallel()
	metrics, err := scrape.FreeAddress()
	must(t, err)
	b := newTestNamespace(t, start(t, stage.Config{DataDir: dataDir(t), Bin: binaries(t), Args: []string{
		"--nodes", "6", "--zones", "a=100Mi,b=100Mi,c=100Mi", "--http-endpoint", metrics,
	}}))
	before := 0
	created := func(t *testing.T, want int) (calls int) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			all, err := scrape.CSICalls(ctx, metrics)
			if calls = all["CreateVolume"] - before; err == nil && calls < want {
				err = fmt.Errorf("%d calls of CreateVolume, want %d", calls, want)
			}
			return err
		})
		before += calls
		return calls
	}
	t.Run("the capacity of each zone is published", func(t *testing.T) { b.capacitiesPublished(t, "a", "b", "c") })
	t.Run("T-10 T-13 pods land where their volumes are", func(t *testing.T) {
		if b.podsLand(t); created(t, 3) != 3 {
			t.Error("more calls of CreateVolume than the three volumes need")
		}
	})
	t.Run("T-21 a StatefulSet of six is two to a zone", func(t *testing.T) {
		if b.setSpreads(t); created(t, 6) != 6 {
			t.Error("more calls of CreateVolume than the six volumes need")
		}
	})
	t.Run("C-41 a full zone is left", func(t *testing.T) {
		b.fullZoneIsLeft(t)
		t.Logf("%d calls of CreateVolume for three volumes", created(t, 3))
	})
	t.Run("explain names the full zone", b.fullZoneIsExplained)
}

func (b testNamespace) podsLand(t *testing.T) {
	for _, zone := range []string{"a", "b", "c"} {
		claim := b.sized(t, "in-"+zone, "4Mi")
		pod := b.podFor(claim, zone)
		eventually(t, func(ctx context.Context) error { return b.Client.Create(ctx, pod.DeepCopy()) })
		pv := b.awaitBound(t, claim)
		node := b.awaitNode(t, pod)
		if zoneOf(pv) != zone || node.Labels[zoneLabel] != zone {
			t.Errorf("the pod is on %s in zone %s, its volume in %q, want %s", node.Name, node.Labels[zoneLabel], zoneOf(pv), zone)
		}
		b.delete(t, pod, client.GracePeriodSeconds(0))
		b.delete(t, claim)
		b.awaitGone(t, pv)
	}
}

// awaitNode returns the node that the scheduler chose.
func (b testNamespace) awaitNode(t *testing.T, pod *corev1.Pod) *corev1.Node {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		if err := b.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Spec.NodeName == "" {
			return fmt.Errorf("pod %s is not scheduled", pod.Name)
		}
		return nil
	})
	node := &corev1.Node{}
	must(t, b.Client.Get(t.Context(), client.ObjectKey{Name: pod.Spec.NodeName}, node))
	return node
}

const statefulSet = `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web, namespace: %[1]s}
spec:
  replicas: 6
  podManagementPolicy: Parallel
  serviceName: web
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: none, volumeMounts: [{name: data, mountPath: /data}]}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: %[1]s, resources: {requests: {storage: 4Mi}}}
`

func (b testNamespace) setSpreads(t *testing.T) {
	b.class(t, func(*storagev1.StorageClass) {}) // with Immediate binding: the volumes are created before the pods are scheduled
	path := filepath.Join(t.TempDir(), "set.yaml")
	must(t, os.WriteFile(path, fmt.Appendf(nil, statefulSet, b.name), 0o600))
	if _, err := b.Kubectl(t.Context(), "apply", "-f", path); err != nil {
		t.Fatal(err)
	}
	zones := map[string]int{}
	for i := range 6 {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: fmt.Sprintf("data-web-%d", i)}}
		eventually(t, func(ctx context.Context) error { return b.Client.Get(ctx, client.ObjectKeyFromObject(claim), claim) })
		zone := zoneOf(b.awaitBound(t, claim))
		zones[zone]++
		if node := b.awaitNode(t, b.podNamed(fmt.Sprintf("web-%d", i))); node.Labels[zoneLabel] != zone {
			t.Errorf("web-%d is on %s, its volume in zone %s", i, node.Name, zone)
		}
	}
	if diff := cmp.Diff(map[string]int{"a": 2, "b": 2, "c": 2}, zones); diff != "" {
		t.Error(diff)
	}
}

func (b testNamespace) podNamed(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: name}}
}

// fullZoneIsLeft creates a volume that fills zone a, and two pods that prefer this zone.
func (b testNamespace) fullZoneIsLeft(t *testing.T) {
	pods := map[string]*corev1.Pod{"first": nil, "second": nil, "third": nil}
	zones := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		claim := b.sized(t, name, "70Mi")
		pods[name] = b.podFor(claim, "")
		if name == "first" {
			pods[name].Spec.NodeSelector = map[string]string{zoneLabel: "a"}
		} else {
			pods[name].Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: corev1.NodeSelectorTerm{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zoneLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}}},
				}}},
			}}
		}
		must(t, b.Client.Create(t.Context(), pods[name]))
		zones[zoneOf(b.awaitBound(t, claim))] = name
	}
	if len(zones) != 3 {
		t.Errorf("three volumes of 70Mi are in %v, which have 100Mi each", zones)
	}
	for zone, name := range zones {
		if node := b.awaitNode(t, pods[name]); node.Labels[zoneLabel] != zone {
			t.Errorf("pod %s is in zone %s, its volume in %s", name, node.Labels[zoneLabel], zone)
		}
	}
}

// A claim whose selected node was deleted is given back to the scheduler, with an event that names
// the node (H-8).
func TestSelectedNodeIsGone(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, start(t, stage.Config{DataDir: dataDir(t), Bin: binaries(t), Args: []string{"--zones", "a,b"}}))
	claim := b.newClaim("claim", "")
	claim.Annotations = map[string]string{"volume.kubernetes.io/selected-node": "gone-node"}
	must(t, b.Client.Create(t.Context(), claim))
	eventually(t, func(ctx context.Context) error {
		if err := b.Client.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if claim.Annotations["volume.kubernetes.io/selected-node"] != "" {
			return errors.New("the claim is for the node that is gone")
		}
		return nil
	})
	b.awaitEvent(t, claim, builtIn, corev1.EventTypeWarning, verdict.Describe(verdict.NodeTopologyUnknown).Event, `"gone-node"`)
}
