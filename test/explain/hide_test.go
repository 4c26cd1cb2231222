package explain

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/purser-csi/purser/internal/explain/inventory"
)

// private are objects with names in fields that the situations do not have.
const private = `
- apiVersion: v1
  kind: Node
  metadata: {name: worker-secret-1}
  spec: {providerID: "aws:///eu-1/i-0abc", podCIDR: 10.9.8.0/24, podCIDRs: [10.9.8.0/24]}
  status:
    addresses: [{type: InternalIP, address: 10.1.2.3}, {type: Hostname, address: ip-10-1-2-3.corp.example}]
    images: [{names: [registry.corp.example/shop/billing@sha256:1], sizeBytes: 5}]
    nodeInfo: {machineID: machine-77, systemUUID: uuid-77, bootID: boot-77, kubeletVersion: v1.36.0}
    conditions: [{type: Ready, status: "True"}]
- apiVersion: v1
  kind: Pod
  metadata: {name: billing-7d9f-x1, namespace: finance, generateName: billing-7d9f-, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: billing-7d9f, uid: u, controller: true}]}
  spec:
    nodeName: worker-secret-1
    priorityClassName: finance-first
    serviceAccountName: billing-robot
    imagePullSecrets: [{name: corp-pull}]
    schedulerName: corp-scheduler
    volumes:
    - {name: billing-conf, configMap: {name: billing-settings}}
    - {name: mixed, projected: {sources: [{secret: {name: billing-token}}, {configMap: {name: billing-ca}}]}}
    - {name: data, persistentVolumeClaim: {claimName: billing-data}}
    containers: [{name: biller, image: registry.corp.example/shop/billing:1, ports: [{containerPort: 80, hostPort: 80, hostIP: 10.1.2.3}]}]
  status: {phase: Pending, podIP: 10.9.8.7, podIPs: [{ip: 10.9.8.7}], hostIP: 10.1.2.3}
- apiVersion: apps/v1
  kind: StatefulSet
  metadata: {name: journal, namespace: finance}
  spec: {serviceName: journal-headless, volumeClaimTemplates: [{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: journal-disk}, spec: {storageClassName: gold-finance}}]}
- {apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: platinum-finance}, provisioner: disk.example.com, parameters: {server: filer.corp.example, share: /finance}}
- {apiVersion: storage.k8s.io/v1, kind: VolumeAttributesClass, metadata: {name: iops-finance}, driverName: disk.example.com}
- {apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshotClass, metadata: {name: nightly-finance}, driver: disk.example.com, deletionPolicy: Delete}
- apiVersion: v1
  kind: ResourceQuota
  metadata: {name: finance-quota, namespace: finance}
  spec: {hard: {platinum-finance.storageclass.storage.k8s.io/requests.storage: 5Gi}}
- {apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: billing-operator-lock, namespace: finance}, spec: {holderIdentity: billing-op-1_77}}
- {apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: worker-secret-1, namespace: kube-node-lease}, spec: {holderIdentity: worker-secret-1}}
- apiVersion: v1
  kind: PersistentVolume
  metadata: {name: pv-journal}
  spec: {storageClassName: retired-finance, claimRef: {namespace: finance, name: journal-disk-journal-0, uid: u}, nfs: {server: filer.corp.example, path: /finance/journal}}
- apiVersion: v1
  kind: Event
  metadata: {name: payroll-0.17a, namespace: finance}
  involvedObject: {kind: PersistentVolumeClaim, namespace: finance, name: payroll-data}
  reason: ProvisioningFailed
  message: 'storageclass.storage.k8s.io "retired-finance" not found for claim finance/payroll-data on worker-secret-9'
  source: {component: kubelet, host: worker-secret-9}
`

// The names that stay are in no cluster alone: those of drivers and sidecars, and of common software.
var publicName = regexp.MustCompile(`^(disk\.example\.com|.*csi.*|kube-.*|default|default-scheduler|external-.*|driver\.longhorn\.io|disk-example-com|` +
	`snapshot-controller.*|(group)?snapcontent-.*|(pvc|prime|populate)-uid-.*|node-driver-registrar|purser.*|redacted)$`)

// nameFields are the fields that have a name of an object, or an address; others end in Name.
var nameFields = []string{
	"name", "namespace", "generateName", "host", "hostname", "address", "ip", "podIP", "hostIP", "providerID", "server",
	"podCIDR", "holderIdentity", "volumeHandle", "snapshotHandle", "nodeID",
}

// collect notes the values of fields that have names. Names of drivers in a CSINode, of resources and of
// signers are none.
func collect(value any, names map[string]bool) {
	switch v := value.(type) {
	case []any:
		for _, inner := range v {
			collect(inner, names)
		}
	case map[string]any:
		for field, inner := range v {
			if field == "drivers" || field == "labels" || field == "annotations" && v["name"] == nil {
				continue
			}
			text, isText := inner.(string)
			isName := slices.Contains(nameFields, field) || strings.HasSuffix(field, "Name") && field != "driverName" && field != "scopeName"
			if isText && isName && text != "" && !publicName.MatchString(text) {
				names[text] = true
			}
			collect(inner, names)
		}
		if classes, _ := v["values"].([]any); v["scopeName"] != nil {
			for _, class := range classes {
				names[fmt.Sprint(class)] = true
			}
		}
	}
}

// containsName reports whether a text has a name as a whole.
func containsName(text, name string) bool {
	isPart := func(r byte) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.'
	}
	for from := 0; ; {
		i := strings.Index(text[from:], name)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(name)
		if (i == 0 || !isPart(text[i-1])) && (end == len(text) || !isPart(text[end])) {
			return true
		}
		from = i + 1
	}
}

// stringsIn calls a function with each text of a value, but those of fields whose values are fixed words.
func stringsIn(value any, each func(string)) {
	switch v := value.(type) {
	case string:
		each(v)
	case []any:
		for _, inner := range v {
			stringsIn(inner, each)
		}
	case map[string]any:
		for field, inner := range v {
			if !slices.Contains([]string{"kind", "apiVersion", "apiGroup", "drivers", "provisioner", "driver", "attacher"}, field) {
				stringsIn(inner, each)
			}
			if strings.Contains(field, "/") {
				each(field)
			}
		}
	}
}

// No name of a cluster is in a dump with hidden names: neither those of its objects, classes and events, nor
// those that only an event, a reference or an address has.
func TestHiddenDumpHasNoName(t *testing.T) {
	base, all := readSituations(t)
	var rest []map[string]any
	if err := yaml.Unmarshal([]byte(private), &rest); err != nil {
		t.Fatal(err)
	}
	all = append(all, situation{Name: "private", Objects: rest})
	checked := 0
	for _, s := range all {
		text, err := os.ReadFile(s.dump(t, base))
		if err != nil {
			t.Fatal(err)
		}
		var before, after struct {
			Items []map[string]any `json:"items"`
		}
		if err := json.Unmarshal(text, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &after); err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, item := range before.Items {
			collect(item, names)
		}
		found := map[string]bool{}
		for _, item := range inventory.HideNames(after.Items) {
			stringsIn(item, func(text string) {
				for name := range names {
					if containsName(text, name) {
						found[fmt.Sprintf("%s in %q", name, text)] = true
					}
				}
			})
		}
		checked += len(names)
		if len(found) > 0 {
			t.Errorf("%s: %v", s.Name, slices.Sorted(maps.Keys(found)))
		}
	}
	t.Logf("%d names in %d dumps", checked, len(all))
	if checked < 3000 {
		t.Error("there were more names")
	}
}
