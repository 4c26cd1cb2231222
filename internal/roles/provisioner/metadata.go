package provisioner

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	provision "github.com/purser-csi/purser/internal/provision/rules"
)

// metadata is the value of --driver-metadata and --volume-metadata: which annotations and labels
// are passed on (U-50 to U-52).
type metadata struct {
	keys    *[]provision.MetadataKey
	sources []provision.MetadataSource
	check   func(provision.MetadataKey) error
}

// Set implements pflag.Value. The flag may be given more than once.
func (m metadata) Set(value string) error {
	for item := range strings.SplitSeq(value, ",") {
		source, name, found := strings.Cut(item, ":")
		key := provision.MetadataKey{Source: provision.MetadataSource(source), Key: name}
		if !found || !slices.Contains(m.sources, key.Source) {
			return fmt.Errorf("%q: must be one of %s, a colon and a key", item, m.known())
		}
		if problems := validation.IsQualifiedName(name); len(problems) > 0 {
			return fmt.Errorf("%q: %s", item, strings.Join(problems, "; "))
		}
		if err := m.check(key); err != nil {
			return err
		}
		if !slices.Contains(*m.keys, key) {
			*m.keys = append(*m.keys, key)
		}
	}
	return nil
}

func (m metadata) known() string {
	var all []string
	for _, source := range m.sources {
		all = append(all, string(source))
	}
	return strings.Join(all, ", ")
}

// String implements pflag.Value.
func (m metadata) String() string {
	if m.keys == nil {
		return ""
	}
	var items []string
	for _, key := range *m.keys {
		items = append(items, string(key.Source)+":"+key.Key)
	}
	return strings.Join(items, ",")
}

// Type implements pflag.Value.
func (metadata) Type() string { return "metadata" }

// driverMetadata is the flag --driver-metadata, which accepts all keys.
func (p *Provisioner) driverMetadata() metadata {
	return metadata{
		keys: &p.Volumes.DriverMetadata, sources: []provision.MetadataSource{
			provision.ClaimAnnotation,
			provision.ClaimLabel, provision.NamespaceLabel,
		},
		check: func(provision.MetadataKey) error { return nil },
	}
}

// steering are the domains of keys that controllers interpret on a PersistentVolume. The author of
// a claim must not be able to set the location, provisioner, group or reclaim behaviour of its
// volume.
var steering = []string{
	"pv.kubernetes.io", "pv.beta.kubernetes.io", "volume.kubernetes.io", "volume.beta.kubernetes.io",
	"volume.alpha.kubernetes.io",
	"topology.kubernetes.io", "failure-domain.beta.kubernetes.io", "purser",
}

func (p *Provisioner) volumeMetadata() metadata {
	return metadata{
		keys:    &p.Volumes.VolumeMetadata,
		sources: []provision.MetadataSource{provision.ClaimAnnotation, provision.ClaimLabel},
		check: func(key provision.MetadataKey) error {
			if domain, _, _ := strings.Cut(key.Key, "/"); strings.Contains(key.Key, "/") &&
				slices.Contains(steering, domain) {
				return fmt.Errorf(
					"%q: keys of %s mean something on a PersistentVolume and are not copied to it", key.Key, domain,
				)
			}
			return nil
		},
	}
}

// readsNamespaces reports whether labels of namespaces are passed to the driver. Upstream's role
// may not read namespaces.
func (p *Provisioner) readsNamespaces() bool {
	return slices.ContainsFunc(
		p.Volumes.DriverMetadata,
		func(k provision.MetadataKey) bool { return k.Source == provision.NamespaceLabel },
	)
}
