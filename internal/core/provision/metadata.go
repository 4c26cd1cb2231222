package provision

import (
	"fmt"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// MetadataSource says whose annotations or labels a key is looked for in.
type MetadataSource string

// The sources of metadata that is passed on.
const (
	ClaimAnnotation MetadataSource = "annotation"
	ClaimLabel      MetadataSource = "label"
	NamespaceLabel  MetadataSource = "namespace-label"
)

// MetadataKey is one annotation or label that is passed on when it is there (U-50 to U-52).
type MetadataKey struct {
	Source MetadataSource
	Key    string
}

// Parameter is the name under which the driver is told of it.
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

// maxMetadata is for keys and values together, in bytes: who may write a claim may write as much as
// a quarter of a megabyte into an annotation, and all of it would be on record. It is what CSI
// allows for a map ("Size Limits").
const maxMetadata = 4096

// addMetadata tells the driver what --driver-metadata names.
func addMetadata(s Snapshot, parameters map[string]string) *verdict.Finding {
	size := 0
	for _, key := range s.Options.DriverMetadata {
		value, found := key.in(s)
		if !found {
			continue
		}
		name := key.Parameter()
		if size += len(name) + len(value); size > maxMetadata {
			return invalidClaim(fmt.Sprintf("%s %s", key.Source, key.Key), fmt.Sprintf("a value of %d bytes", len(value)),
				fmt.Sprintf("the driver is told of %d bytes of metadata at most; shorten it", maxMetadata))
		}
		parameters[name] = value
	}
	return nil
}

// volumeMetadata is what --volume-metadata has copied from the claim to its PersistentVolume.
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

// NamespaceToRead is the namespace whose labels the driver is told of, when nothing else is in the
// way; empty for none.
func NamespaceToRead(s Snapshot) string {
	for _, key := range s.Options.DriverMetadata {
		if key.Source == NamespaceLabel && isFreeToAsk(s) {
			return s.Key.Namespace
		}
	}
	return ""
}

// unseen says that the driver cannot be told what it is to be told.
func unseen(s Snapshot) *verdict.Finding {
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

func isFreeToAsk(s Snapshot) bool {
	for _, c := range checks {
		if c(s) != nil {
			return false
		}
	}
	return true
}
