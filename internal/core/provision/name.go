package provision

import (
	"strings"
)

// VolumeName is the name of the claim's volume towards the driver and of its PersistentVolume: R-1,
// P-1. It depends on the claim's key alone, so every attempt, of whatever process, asks for the
// same volume.
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

// MaxVolumeName is how long a name may be that is made from a template, in bytes: what CSI allows
// for a string ("Size Limits").
const MaxVolumeName = 128

// fill writes the claim into a template of names (U-53). Of what is too long the claim's name is
// cut first, then its namespace, and never the uid: it tells the volume from all others.
func fill(template, namespace, name, uid string) string {
	for {
		full := strings.NewReplacer("${pvc.namespace}", namespace, "${pvc.name}", name, "${pvc.uid}", uid).Replace(template)
		switch {
		case len(full) <= MaxVolumeName:
			return full
		case len(name) > 1:
			name = shorter(name)
		case len(namespace) > 1:
			namespace = shorter(namespace)
		default:
			return full
		}
	}
}

// shorter ends with a letter or a digit, as a name must wherever it is cut.
func shorter(name string) string { return strings.TrimRight(name[:len(name)-1], "-.") }

// volumeName is the name for the next request: that on record, if there is one, whatever the
// options are by now. What an earlier call may have left is found under it.
func volumeName(s Snapshot) string {
	if s.Pending != nil {
		return s.Pending.VolumeName
	}
	return VolumeName(s.Key, s.Options)
}
