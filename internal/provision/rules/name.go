package provision

import (
	"strings"
)

// VolumeName returns the name of the CreateVolume request and of the PersistentVolume (R-1, P-1).
// It depends on the claim's key alone, so that every attempt of every process requests the same
// volume.
func VolumeName(key Key, o Options) string {
	id := string(key.UID)
	if o.NameUUIDLength >= 0 {
		id = strings.ReplaceAll(id, "-", "")
		id = id[:min(o.NameUUIDLength, len(id))]
	}
	if o.NameTemplate == "" {
		return o.NamePrefix + "-" + id
	}
	return fill(o.NameTemplate, key.Namespace, key.Name, id)
}

// MaxVolumeName is the maximum length of a name made from a template, in bytes: CSI's limit for a
// string ("Size Limits").
const MaxVolumeName = 128

// fill expands a name template (U-53). If the result is too long, the claim's name is cut first,
// then its namespace. The uid, which makes the name unique, is never cut.
func fill(template, namespace, name, uid string) string {
	for {
		full := strings.NewReplacer(
			"${pvc.namespace}", namespace, "${pvc.name}", name, "${pvc.uid}", uid,
		).Replace(template)
		switch {
		case len(full) <= MaxVolumeName:
			return full
		case len(name) > 1:
			name = withoutLastCharacter(name)
		case len(namespace) > 1:
			namespace = withoutLastCharacter(namespace)
		default:
			return full
		}
	}
}

// withoutLastCharacter also cuts trailing dashes and dots, with which a name must not end.
func withoutLastCharacter(name string) string { return strings.TrimRight(name[:len(name)-1], "-.") }

// volumeName returns the name for the next request. A name in the journal entry wins over the
// current options, since an earlier call may have created a volume with it.
func volumeName(s Snapshot) string {
	if s.Pending != nil {
		return s.Pending.VolumeName
	}
	return VolumeName(s.Key, s.Options)
}
