package inventory

import (
	"cmp"
	"slices"
	"strings"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
)

const redacted = "redacted"

// redactFree redacts the values of maps and lists that a person or a driver fills freely. Their
// keys stay, since a cause may depend on them.
func redactFree(value any) {
	switch v := value.(type) {
	case []any:
		for _, inner := range v {
			redactFree(inner)
		}
	case map[string]any:
		for field, inner := range v {
			switch redact := redactions[field]; {
			case redact != nil:
				redact(inner)
			case field == "image":
				text, _ := inner.(string)
				v[field] = cmp.Or(explain.SidecarImage(text), redacted)
			case field == "imageID", field == "containerID":
				v[field] = redacted
			case slices.Contains(unneeded, field):
				delete(v, field)
			default:
				redactFree(inner)
			}
		}
	}
}

// unneeded are fields of nodes and pods that no explanation reads.
var unneeded = []string{"images", "podCIDRs", "podIPs", "hostIPs"}

// redactions are by the field whose value they change.
var redactions = map[string]func(value any){
	"parameters": redactParameters, "volumeAttributes": redactParameters, "attributes": redactParameters,
	"attachmentMetadata": redactParameters, "volumeContext": redactParameters,
	"annotations": func(value any) {
		redactJournal(value)
		redactValues(value, isVolumePlaneKey)
	},
	"nfs": func(value any) { redactValues(value, func(key string) bool { return key != "path" }) },
	"managedFields": func(value any) {
		list, _ := value.([]any)
		for _, entry := range list {
			redactManager(entry)
		}
	},
	"nodeInfo": func(value any) {
		redactValues(value, func(key string) bool { return strings.HasSuffix(key, "Version") })
	},
	"hostPath": func(value any) {
		of, _ := value.(map[string]any)
		path, _ := of["path"].(string)
		isPublic := strings.Contains(path, "/kubelet/") || strings.Contains(path, "/plugins/")
		redactValues(value, func(key string) bool { return key != "path" || isPublic })
	},
	"mountOptions": func(value any) {
		if list, ok := value.([]any); ok {
			for i := range list {
				list[i] = redacted
			}
		}
	},
}

// publicManagers begin the field managers of common software.
var publicManagers = []string{"kube-", "kubelet", "kubectl", "csi-", "snapshot-controller", "purser", "external-"}

// redactManager removes the name of a program that only one owner may have.
func redactManager(value any) {
	entry, ok := value.(map[string]any)
	if !ok {
		return
	}
	manager, _ := entry["manager"].(string)
	entry["manager"] = PublicManager(manager)
}

// PublicManager returns the name of a field manager of common software, and redacts another one.
func PublicManager(manager string) string {
	if slices.ContainsFunc(publicManagers, func(p string) bool { return strings.HasPrefix(manager, p) }) {
		return manager
	}
	return redacted
}

func redactParameters(value any) {
	redactValues(value, func(key string) bool {
		return strings.HasPrefix(key, "csi.storage.k8s.io/") || key == names.OwnParameterMinimumSize ||
			referenceFields[key] == "Server"
	})
}

// redactJournal removes the requests of a journal, which have names of claims and parameters of
// classes. A text that cannot be read stays one, since that is a cause.
func redactJournal(value any) {
	annotations, ok := value.(map[string]any)
	if !ok {
		return
	}
	for _, name := range []string{names.AnnIntents, names.AnnIntentsUnreadable} {
		text, ok := annotations[name].(string)
		if !ok {
			continue
		}
		annotations[name] = redacted
		if _, err := intent.Decode(text); err == nil {
			delete(annotations, name)
		}
	}
}

func redactValues(value any, isKept func(key string) bool) {
	values, ok := value.(map[string]any)
	if !ok {
		return
	}
	for key := range values {
		if !isKept(key) {
			values[key] = redacted
		}
	}
}

// isVolumePlaneKey reports whether the decisions depend on the annotation. Names in its value are
// replaced as everywhere.
func isVolumePlaneKey(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return strings.HasSuffix(prefix, "kubernetes.io") && prefix != "kubectl.kubernetes.io" || prefix == "purser"
}
