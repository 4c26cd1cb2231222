package inventory

import (
	"cmp"
	"strings"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// hiddenKinds are those whose names tell of the owner of a cluster.
var hiddenKinds = map[string]bool{
	"PersistentVolumeClaim": true, "PersistentVolume": true, "Pod": true, "Node": true, "Namespace": true,
	"Secret":         true,
	"VolumeSnapshot": true, "VolumeSnapshotContent": true, "ResourceQuota": true, "VolumeAttachment": true,
	"CSIStorageCapacity": true,
	"StorageClass":       true, "VolumeAttributesClass": true, "VolumeSnapshotClass": true,
	"ReferenceGrant": true, "Deployment": true, "StatefulSet": true, "DaemonSet": true, "ReplicaSet": true,
	"Job": true, "LimitRange": true, "VolumeGroupSnapshot": true, "VolumeGroupSnapshotContent": true,
	"VolumeGroupSnapshotClass": true,
}

// keptKinds are those whose names stay where an object refers to them.
var keptKinds = map[string]bool{"CSIDriver": true, "Lease": true}

// referenceFields are fields that name an object of a kind which may not be in the dump any more.
var referenceFields = map[string]string{
	"volumeName": "PersistentVolume", "persistentVolumeName": "PersistentVolume", "claimName": "PersistentVolumeClaim",
	"persistentVolumeClaimName": "PersistentVolumeClaim", "nodeName": "Node", "host": "Node", "nodeID": "Node",
	"storageClassName": "StorageClass", "volumeSnapshotClassName": "VolumeSnapshotClass",
	"volumeAttributesClassName":               "VolumeAttributesClass",
	"currentVolumeAttributesClassName":        "VolumeAttributesClass",
	"targetVolumeAttributesClassName":         "VolumeAttributesClass",
	"volume.beta.kubernetes.io/storage-class": "StorageClass",
	"priorityClassName":                       "PriorityClass", "runtimeClassName": "RuntimeClass",
	"schedulerName":     "Scheduler",
	"nominatedNodeName": "Node", "serviceName": "Service",
	"podIP": "Address", "ip": "Address", "address": "Address", "podCIDR": "Address", "providerID": "Address",
	"pdName": "Handle", "volumeID": "Handle", "diskName": "Handle", "diskURI": "Handle", "volumePath": "Handle",
	"secretName": "Secret", "volumeSnapshotName": "VolumeSnapshot", "volumeHandle": "Handle",
	"snapshotHandle": "Handle",
	"generateName":   "Name", "serviceAccountName": "ServiceAccount", "serviceAccount": "ServiceAccount",
	"reportingInstance": "Name",
	"hostIP":            "Address",
	"server":            "Server", "clusterID": "Server", "monitors": "Server", "targetPortal": "Server",
	"holderIdentity": "Holder", "kubernetes.io/hostname": "Node", "hostname": "Node", "subdomain": "Name",
	"boundVolumeSnapshotContentName": "VolumeSnapshotContent", "volumeSnapshotContentName": "VolumeSnapshotContent",
	"boundVolumeGroupSnapshotContentName": "VolumeGroupSnapshotContent",
	"volumeGroupSnapshotContentName":      "VolumeGroupSnapshotContent",
	"volumeGroupSnapshotName":             "VolumeGroupSnapshot", "volumeGroupSnapshotHandle": "Handle",
	"volumeGroupSnapshotClassName": "VolumeGroupSnapshotClass",
}

// noteReferences notes the names that an object refers to: those of deleted objects are in events,
// claimRefs and owner references alone.
func noteReferences(value any, note func(kind, name string)) {
	switch v := value.(type) {
	case []any:
		for _, inner := range v {
			noteReferences(inner, note)
		}
	case map[string]any:
		kind, _ := v["kind"].(string)
		name, _ := v["name"].(string)
		if kind != "" && !keptKinds[kind] {
			note(kind, name)
		}
		namespace, _ := v["namespace"].(string)
		note("Namespace", namespace)
		noteScope(v, note)
		for field, inner := range v {
			text, isText := inner.(string)
			switch of := referencedKind(field); {
			case isText && of != "":
				if !strings.Contains(text, "${") { // a template of a class
					note(of, text)
				}
			case strings.HasSuffix(field, "SecretRef"), namedParts[field] != "" && (field != "metadata" ||
				!keptKinds[kind]):
				if ref, ok := inner.(map[string]any); ok {
					name, _ := ref["name"].(string)
					note(cmp.Or(namedParts[field], "Secret"), name)
				}
				noteReferences(inner, note)
			default:
				noteParts(field, inner, note)
				noteReferences(inner, note)
			}
		}
	}
}

// noteScope notes the classes that a scope of a ResourceQuota selects.
func noteScope(scope map[string]any, note func(kind, name string)) {
	of, _ := scope["scopeName"].(string)
	if values, _ := scope["values"].([]any); of == "PriorityClass" || of == "VolumeAttributesClass" {
		for _, value := range values {
			name, _ := value.(string)
			note(of, name)
		}
	}
}

// namedParts are fields with an object that has a name and no kind.
var namedParts = map[string]string{
	"secret": "Secret", "configMap": "ConfigMap", "metadata": "Name", "claimRef": "PersistentVolumeClaim",
	"volumeSnapshotRef": "VolumeSnapshot", "volumeGroupSnapshotRef": "VolumeGroupSnapshot",
}

// partsOfPods are lists of a pod whose entries have names.
var partsOfPods = map[string]string{
	"imagePullSecrets": "Secret", "volumes": "PodVolume", "containers": "Container", "initContainers": "Container",
	"containerStatuses": "Container", "initContainerStatuses": "Container",
}

func noteParts(field string, value any, note func(kind, name string)) {
	list, isList := value.([]any)
	if field == "volumeHandles" || field == "volumeSnapshotHandles" {
		for _, inner := range list {
			handle, _ := inner.(string)
			note("Handle", handle)
		}
	}
	if of := partsOfPods[field]; isList && of != "" {
		for _, inner := range list {
			part, _ := inner.(map[string]any)
			if name, _ := part["name"].(string); explain.SidecarImage(name) == "" {
				note(of, name)
			}
		}
	}
}

// referencedKind returns the kind that a field, an annotation or a parameter of a class names;
// empty for none.
func referencedKind(field string) string {
	switch {
	case strings.HasSuffix(field, "secret-name"):
		return "Secret"
	case strings.HasSuffix(field, "secret-namespace"):
		return "Namespace"
	case strings.HasSuffix(field, "/selected-node"):
		return "Node"
	}
	return referenceFields[field]
}
