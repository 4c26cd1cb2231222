package ui

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/purser-csi/purser/internal/explain/inventory"
	"github.com/purser-csi/purser/internal/life"
)

// The objects of most tests: a claim without its class, one that is bound and used, and what is
// around them.
const objectsText = `
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: stuck, namespace: shop, uid: s, labels: {app: web}, creationTimestamp: "2026-01-01T00:00:00Z"},
  spec: {storageClassName: nope, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}, status: {phase: Pending}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: shop, uid: u, creationTimestamp: "2026-01-01T00:00:00Z",
  annotations: {pv.kubernetes.io/bind-completed: "yes"},
  managedFields: [{manager: kube-controller-manager, operation: Update, subresource: status, time: "2026-01-01T00:00:07Z"}]},
  spec: {storageClassName: fast, accessModes: [ReadWriteOnce], volumeName: pv-1, resources: {requests: {storage: 1Gi}}},
  status: {phase: Bound, capacity: {storage: 1Gi}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv-1, uid: p, creationTimestamp: "2026-01-01T00:00:05Z"},
  spec: {storageClassName: fast, capacity: {storage: 1Gi}, claimRef: {namespace: shop, name: data, uid: u},
    csi: {driver: d.example.com, volumeHandle: handle-77}},
  status: {phase: Bound}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, uid: w, creationTimestamp: "2026-01-01T00:00:01Z"},
  spec: {nodeName: n1, containers: [{name: c, image: i}], volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]},
  status: {phase: Running, conditions: [{type: PodScheduled, status: "True", lastTransitionTime: "2026-01-01T00:00:02Z"},
    {type: PodReadyToStartContainers, status: "True", lastTransitionTime: "2026-01-01T00:00:09Z"}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {topology.kubernetes.io/zone: zone-a}}, status: {conditions: [{type: Ready, status: "True"}]}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, provisioner: d.example.com}
---
{apiVersion: storage.k8s.io/v1, kind: CSIStorageCapacity, metadata: {name: c1, namespace: kube-system}, storageClassName: fast, capacity: 3Gi,
  nodeTopology: {matchLabels: {topology.kubernetes.io/zone: zone-a}}}
---
{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshot, metadata: {name: snap, namespace: shop, uid: q, creationTimestamp: "2026-01-01T00:01:00Z",
  managedFields: [{manager: snapshot-controller, operation: Update, subresource: status, time: "2026-01-01T00:01:04Z"}]},
  spec: {source: {persistentVolumeClaimName: data}}, status: {readyToUse: true, boundVolumeSnapshotContentName: x}}
---
{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshotContent, metadata: {name: x, creationTimestamp: "2026-01-01T00:01:01Z"},
  spec: {driver: d.example.com, deletionPolicy: Delete, source: {volumeHandle: handle-77}, volumeSnapshotRef: {namespace: shop, name: snap, uid: q}},
  status: {readyToUse: true, snapshotHandle: s1}}
`

// noon is the time of the dumps of tests.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// stateOf returns the state of a dump.
func stateOf(t *testing.T, text string) *State {
	t.Helper()
	builder := inventory.NewBuilder(noon)
	if _, err := builder.Parse("test", []byte(text)); err != nil {
		t.Fatal(err)
	}
	cluster := builder.Cluster()
	return &State{
		Title: "test", Cluster: cluster,
		Changes: func() *life.History { return life.New(life.OfCluster(cluster)) },
	}
}

// get returns the answer of a handler.
func get(t *testing.T, h http.Handler, path string) (code int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	text, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(text)
}

func hasAll(t *testing.T, where, text string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %q", where, want)
		}
	}
}
