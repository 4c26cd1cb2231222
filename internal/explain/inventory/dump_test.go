package inventory

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
)

// A name is replaced by the same word everywhere: in metadata, references, keys and messages.
// Values that explain needs stay.
func TestHideNames(t *testing.T) {
	items := []map[string]any{
		{
			"kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": "payroll-2026", "namespace": "acme-hr"},
			"spec": map[string]any{"volumeName": "pvc-1", "storageClassName": "fast"},
		},
		{"kind": "PersistentVolume", "metadata": map[string]any{"name": "pvc-1"}, "spec": map[string]any{
			"claimRef": map[string]any{"namespace": "acme-hr", "name": "payroll-2026"},
			"csi":      map[string]any{"driver": "disk.example.com"},
		}},
		{"kind": "Node", "metadata": map[string]any{"name": "host7.acme.internal"}},
		{
			"kind": "Event", "metadata": map[string]any{"name": "e", "namespace": "acme-hr"},
			"message": `cannot mount "payroll-2026" of acme-hr/payroll-2026 on host7.acme.internal.`,
		},
		{"kind": "Lease", "metadata": map[string]any{"name": "disk-example-com", "namespace": "kube-system"}},
	}
	text, err := json.Marshal(HideNames(items))
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	for _, secret := range []string{"payroll", "acme", "host7", "pvc-1", "fast"} {
		if strings.Contains(got, secret) {
			t.Errorf("%q is left in %s", secret, got)
		}
	}
	for _, kept := range []string{
		`"storageClassName":"storageclass-1"`, "disk.example.com", "disk-example-com", "kube-system",
		`cannot mount \"persistentvolumeclaim-1\" of namespace-1/persistentvolumeclaim-1 on node-1.`,
		`"claimRef":{"name":"persistentvolumeclaim-1","namespace":"namespace-1"}`,
	} {
		if !strings.Contains(got, kept) {
			t.Errorf("%q is not in %s", kept, got)
		}
	}
}

// One rule holds for all texts of the dump: no name, and no value that a person writes freely, is
// left in names of events, events of deleted objects, annotations, labels, parameters, mount
// options or attributes.
func TestHideNamesEverywhere(t *testing.T) {
	meta := func(name string, more map[string]any) map[string]any {
		m := map[string]any{"name": name, "namespace": "acme-hr"}
		maps.Copy(m, more)
		return m
	}
	items := []map[string]any{
		{"kind": "Pod", "metadata": meta("acmeweb-0", map[string]any{
			"generateName": "acmeweb-", "labels": map[string]any{"app": "acmeapp", "team": "acmeteam", "app.kubernetes.io/name": "acmename"},
			"annotations":     map[string]any{"example.com/owner": "acmeowner", "pv.kubernetes.io/bind-completed": "yes"},
			"ownerReferences": []any{map[string]any{"kind": "StatefulSet", "name": "acmeset"}},
		}), "spec": map[string]any{"nodeName": "acmenode", "nodeSelector": map[string]any{
			"acme.example.com/rack": "acmerack", "topology.kubernetes.io/zone": "zone-a",
		}, "affinity": map[string]any{"nodeAffinity": map[string]any{"required": map[string]any{"nodeSelectorTerms": []any{
			map[string]any{"matchExpressions": []any{map[string]any{"key": "acme.example.com/rack", "operator": "In", "values": []any{"acmerack"}}}},
		}}}}, "tolerations": []any{map[string]any{"key": "acme-dedicated", "value": "acmeteam"}}, "containers": []any{
			map[string]any{"name": "acmecontainer", "image": "registry.acme.internal/app:1"},
		}, "volumes": []any{map[string]any{"csi": map[string]any{
			"driver": "disk.example.com", "volumeAttributes": map[string]any{"share": "acmeshare"},
			"nodePublishSecretRef": map[string]any{"name": "acmesecret"},
		}}}}},
		{
			"kind": "Event", "metadata": meta("acmeweb-0.17f2", nil), "message": "pod acmeweb-0 failed",
			"involvedObject": map[string]any{"kind": "Pod", "name": "acmeweb-0", "namespace": "acme-hr"},
		},
		{
			"kind": "Event", "metadata": meta("acmegone.17f3", nil), "message": `claim "acmegone" deleted`,
			"involvedObject": map[string]any{"kind": "PersistentVolumeClaim", "name": "acmegone", "namespace": "acme-hr"},
			"source":         map[string]any{"component": "kubelet", "host": "acmehost"},
		},
		{
			"kind": "StorageClass", "metadata": map[string]any{"name": "fast"}, "provisioner": "disk.example.com",
			"parameters":   map[string]any{"pool": "acmepool", "csi.storage.k8s.io/fstype": "ext4", "csi.storage.k8s.io/provisioner-secret-name": "acmekey"},
			"mountOptions": []any{"password=acmepassword"},
		},
		{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta("v1", nil)},
		{"kind": "CSINode", "spec": map[string]any{"drivers": []any{map[string]any{"name": "disk.example.com", "topologyKeys": []any{"acme.example.com/rack"}}}}},
		{"kind": "PersistentVolume", "metadata": map[string]any{"name": "acmepv"}, "spec": map[string]any{
			"storageClassName": "fast",
			"claimRef":         map[string]any{"kind": "PersistentVolumeClaim", "namespace": "acmelater", "name": "acmeclaim"},
			"csi":              map[string]any{"volumeHandle": "acmehandle", "volumeAttributes": map[string]any{"server": "acmeserver"}},
			"mountOptions":     []any{"acmeoption"},
		}},
		{"kind": "CSINode", "metadata": map[string]any{"name": "acmegonenode"}},
		{"kind": "Deployment", "metadata": meta("acmedisk-controller", nil), "spec": map[string]any{"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"acme": "acmedisk"}},
			"spec": map[string]any{"serviceAccountName": "acmeaccount", "containers": []any{
				map[string]any{"name": "csi-provisioner", "image": "registry.acme.internal/csi-provisioner:v5"},
				map[string]any{"name": "acmesync", "image": "registry.acme.internal/acmesync:v5"},
			}, "volumes": []any{map[string]any{"name": "acmevolume", "hostPath": map[string]any{"path": "/data/acme"}}}},
		}}},
		{"kind": "DaemonSet", "metadata": meta("acmedisk-node", nil)},
		{"kind": "ReplicaSet", "metadata": meta("acmedisk-controller-5d", map[string]any{
			"ownerReferences": []any{map[string]any{"kind": "Deployment", "name": "acmedisk-controller"}},
		})},
		{"kind": "PersistentVolume", "metadata": map[string]any{"name": "acmepv2"}, "spec": map[string]any{
			"csi": map[string]any{"volumeHandle": "projects/acme-corp/zones/eu/disks/Backup_Acme"},
		}},
		{"kind": "PersistentVolume", "metadata": map[string]any{"name": "acmepv3"}, "spec": map[string]any{
			"csi": map[string]any{"volumeHandle": "projects/acme-corp/zones/eu/disks/Backup_Acme_2"},
		}},
		{"kind": "PersistentVolume", "metadata": map[string]any{"name": "acmepv4"}, "spec": map[string]any{
			"csi": map[string]any{"volumeHandle": "D"},
		}},
		{
			"kind": "Event", "metadata": meta("acmeweb-0.17f4", nil),
			"message": `Disk "projects/acme-corp/zones/eu/disks/Backup_Acme_2" is busy, (projects/acme-corp/zones/eu/disks/Backup_Acme) too`,
		},
	}
	text, err := json.Marshal(HideNames(items))
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	if i := strings.Index(strings.ToLower(got), "acme"); i >= 0 {
		t.Errorf("a name is left at %q of %s", got[i:min(i+20, len(got))], got)
	}
	for _, kept := range []string{"disk.example.com", `"csi.storage.k8s.io/fstype":"ext4"`, `"storageClassName":"storageclass-1"`, `"bind-completed`, `"pool":`, `"apiVersion":"v1"`, `"topology.kubernetes.io/zone":"zone-a"`, `"name":"csi-provisioner"`, `"image":"csi-provisioner"`, `Disk \"handle-3\" is busy, (handle-2) too`} {
		if !strings.Contains(got, strings.TrimPrefix(kept, `"bind`)) {
			t.Errorf("%q is not in %s", kept, got)
		}
	}
}

// The key of the reason keeps a reason of a decision only: any object may have any text under it.
func TestHideNamesUnderTheKeyOfTheReason(t *testing.T) {
	const key = "purser/reason"
	claim := func(name, reason string) map[string]any {
		return map[string]any{"kind": "PersistentVolumeClaim", "metadata": map[string]any{
			"name": name, "namespace": "acme-hr", "annotations": map[string]any{key: reason},
		}}
	}
	items := HideNames([]map[string]any{claim("acmedb", "JournalFull"), claim("acmeweb", "moved from acmedb"), claim("full", "acmeweb")})
	for i, want := range []string{"JournalFull", "moved from persistentvolumeclaim-1", "persistentvolumeclaim-2"} {
		metadata, _ := items[i]["metadata"].(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		if annotations[key] != want {
			t.Errorf("%q is left, want %q", annotations[key], want)
		}
	}
}

// The journal has the names of claims and the parameters of classes, compressed. Whether it can be
// read stays known.
func TestHideNamesOfTheJournal(t *testing.T) {
	good, err := intent.Encode([]intent.Entry{{
		Claim: types.NamespacedName{Namespace: "acme-hr", Name: "payroll"}, UID: "u", Request: &csi.CreateVolumeRequest{Name: "pvc-u"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for text, readable := range map[string]bool{good: true, "v9:acme": false, good[:len(good)-2]: false} {
		items := HideNames([]map[string]any{{"kind": "Lease", "metadata": map[string]any{
			"name": "purser-intents-disk", "annotations": map[string]any{names.AnnIntents: text, names.AnnIntentsUnreadable: "v9:acme"},
		}}})
		metadata, _ := items[0]["metadata"].(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		left, _ := annotations[names.AnnIntents].(string)
		if _, err := intent.Decode(left); (err == nil) != readable || left == text {
			t.Errorf("%q became %q", text, left)
		}
		if annotations[names.AnnIntentsUnreadable] != redacted {
			t.Errorf("left: %v", annotations)
		}
	}
}

// The dump of one namespace has the pods and workloads of components of all, and no old revisions.
func TestDumpOfOneNamespace(t *testing.T) {
	spec := func(container, image string) corev1.PodSpec {
		return corev1.PodSpec{Containers: []corev1.Container{{Name: container, Image: image}}}
	}
	for name, tc := range map[string]struct {
		object client.Object
		want   bool
	}{
		"a lease":           {&coordinationv1.Lease{}, true},
		"a driver's pod":    {&corev1.Pod{Spec: spec("csi-provisioner", "x")}, true},
		"purser":            {&corev1.Pod{Spec: spec("sidecars", "registry.example.com/purser:v1")}, true},
		"a user's pod":      {&corev1.Pod{Spec: spec("web", "nginx:1")}, false},
		"a user's workload": {&appsv1.StatefulSet{}, false},
		"a node plugin": {&appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{
			Spec: spec("r", "registry.k8s.io/sig-storage/csi-node-driver-registrar:v2"),
		}}}, true},
	} {
		if got := TellsOfAll(tc.object); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	none, owned := int32(0), []metav1.OwnerReference{{Kind: "Deployment"}}
	old := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{OwnerReferences: owned}, Spec: appsv1.ReplicaSetSpec{Replicas: &none}}
	if !IsOldRevision(old) || IsOldRevision(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{OwnerReferences: owned}}) {
		t.Error("old revisions")
	}
}

// A content says who wrote which part when, and not what.
func TestContentOfWriters(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 31, 13, 0, 0, 0, time.FixedZone("", 3600)))
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", ManagedFields: []metav1.ManagedFieldsEntry{
		{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", Time: &at, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)},
		{Manager: "binder", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status", Time: &at},
		{Manager: "unknown"},
	}}}
	content, err := Content(claim)
	if err != nil {
		t.Fatal(err)
	}
	metadata, _ := content["metadata"].(map[string]any)
	want := []any{
		map[string]any{"manager": "kubectl", "operation": "Apply", "time": "2026-01-31T12:00:00Z"},
		map[string]any{"manager": "binder", "operation": "Update", "subresource": "status", "time": "2026-01-31T12:00:00Z"},
	}
	if diff := cmp.Diff(want, metadata["managedFields"]); diff != "" {
		t.Error(diff)
	}
	if len(claim.ManagedFields) != 3 {
		t.Error("the object was changed")
	}
}
