package provision

import (
	"fmt"
	"slices"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// MetadataSource is the kind of annotation or label that a [MetadataKey] names.
type MetadataSource string

// The sources of metadata that is passed to the driver or copied to the PersistentVolume.
const (
	ClaimAnnotation MetadataSource = "annotation"
	ClaimLabel      MetadataSource = "label"
	NamespaceLabel  MetadataSource = "namespace-label"
)

// MetadataKey is one annotation or label that is passed on if it exists (U-50 to U-52).
type MetadataKey struct {
	Source MetadataSource
	Key    string
}

// Parameter returns the name of the CreateVolume parameter with its value.
func (k MetadataKey) Parameter() string {
	return names.OwnParameterPrefix + string(k.Source) + "/" + k.Key
}

func (k MetadataKey) in(s Snapshot) (value string, found bool) {
	switch k.Source {
	case ClaimAnnotation:
		value, found = s.Claim.Annotations[k.Key]
	case ClaimLabel:
		value, found = s.Claim.Labels[k.Key]
	case NamespaceLabel:
		value, found = s.Namespace.Labels[k.Key]
	}
	return value, found
}

// maxMetadata bounds keys and values together, in bytes. It is the limit of CSI for a map ("Size
// Limits"). An annotation may have 256 KiB, and all of it would be in the journal entry.
const maxMetadata = 4096

// addMetadata adds the keys of --driver-metadata to the parameters of CreateVolume.
func addMetadata(s Snapshot, parameters map[string]string) *verdict.Finding {
	size := 0
	for _, key := range s.Options.DriverMetadata {
		value, found := key.in(s)
		if !found {
			continue
		}
		name := key.Parameter()
		if size += len(name) + len(value); size > maxMetadata {
			return invalidClaim(fmt.Sprintf("%s %s", key.Source, key.Key),
				fmt.Sprintf("a value of %d bytes", len(value)),
				fmt.Sprintf("the driver gets at most %d bytes of metadata; shorten it", maxMetadata))
		}
		parameters[name] = value
	}
	return nil
}

// volumeMetadata adds the keys of --volume-metadata with the given source to a map of the
// PersistentVolume.
func volumeMetadata(s Snapshot, source MetadataSource, to map[string]string) map[string]string {
	for _, key := range s.Options.VolumeMetadata {
		if value, found := key.in(s); found && key.Source == source {
			if to == nil {
				to = map[string]string{}
			}
			to[key.Key] = value
		}
	}
	return to
}

// readsNamespace reports whether --driver-metadata names labels of the claim's namespace.
func readsNamespace(o Options) bool {
	return slices.ContainsFunc(o.DriverMetadata, func(key MetadataKey) bool { return key.Source == NamespaceLabel })
}

// checkNamespace refuses the claim if the namespace labels for the driver may not be read.
func checkNamespace(s Snapshot) *verdict.Finding {
	if s.Namespace.Access != Forbidden {
		return nil
	}
	return &verdict.Finding{
		Reason: verdict.NamespaceForbidden,
		Message: fmt.Sprintf(
			"namespace %q, whose labels the driver is to be told, may not be read by the provisioner",
			s.Key.Namespace,
		),
		Fix: "Give its service account a ClusterRole with apiGroups [\"\"], resources [namespaces], verbs [get]",
	}
}
