package driver

import (
	"context"
	"fmt"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/records"
)

// ZoneKey is the topology key of Config.Zones.
const ZoneKey = "topology.kubernetes.io/zone"

// zones are the zones over which one driver spreads its volumes. The zero value is a driver without
// zones.
type zones struct {
	names []string
	store *records.ZoneStore
}

func (z zones) exist() bool { return z.store != nil }

// recover reads the zones of the volumes that exist.
func (z zones) recover(ctx context.Context, volumes backend.Volumes) error {
	if !z.exist() {
		return nil
	}
	return z.store.Recover(ctx, func(volume backend.ID) (bool, error) {
		_, err := volumes.Get(ctx, volume)
		return !fault.NotFound.Is(err), nil
	})
}

// wanted returns the zones of a requirement, the preferred ones first; all
// zones where nothing is required.
func (z zones) wanted(r *csi.TopologyRequirement) []string {
	terms := append(slices.Clone(r.GetPreferred()), r.GetRequisite()...)
	if len(terms) == 0 {
		return z.names
	}
	var wanted []string
	for _, term := range terms {
		for _, name := range z.at(term) {
			if !slices.Contains(wanted, name) {
				wanted = append(wanted, name)
			}
		}
	}
	return wanted
}

// at returns the zones that a topology includes. One without a zone includes
// all of them.
func (z zones) at(t *csi.Topology) []string {
	name, named := t.GetSegments()[ZoneKey]
	switch {
	case !named:
		return z.names
	case slices.Contains(z.names, name):
		return []string{name}
	}
	return nil
}

// topologies says where a volume is. One that was made before there were zones
// is everywhere.
func (z zones) topologies(volume backend.ID) []*csi.Topology {
	name, ok := z.store.Of(volume)
	if !ok {
		return nil
	}
	return []*csi.Topology{{Segments: map[string]string{ZoneKey: name}}}
}

// createIn makes a volume in one of the wanted zones.
func (s *controllerService) createIn(ctx context.Context, r backend.Request, wanted []string) (backend.Volume, error) {
	zones := s.features.zones
	if !zones.exist() {
		return s.create(ctx, r)
	}
	_, err := s.backend.Get(ctx, r.ID)
	switch {
	case fault.NotFound.Is(err):
		err = zones.store.Place(r.ID, r.Size.Required, wanted)
	case err == nil:
		err = zones.includes(wanted, r)
	}
	if err != nil {
		return backend.Volume{}, err
	}
	volume, err := s.create(ctx, r)
	if err == nil {
		err = zones.store.Resize(r.ID, volume.CapacityBytes)
		if fault.OutOfRange.Is(err) { // it has a little more than it asked for
			err = nil
		}
	}
	return volume, err
}

// includes reports whether a volume that exists is where it is wanted.
func (z zones) includes(wanted []string, r backend.Request) error {
	if name, ok := z.store.Of(r.ID); ok && !slices.Contains(wanted, name) {
		return fault.Incompatible.Errorf("volume %q exists in zone %s, not in %v; use another name or delete the "+
			"volume",
			r.Name, name, wanted)
	}
	return nil
}

// bound lowers the free space of the backend to that of the wanted zones.
func (z zones) bound(available int64, wanted []string) int64 {
	if !z.exist() {
		return available
	}
	if free, bounded := z.store.FreeBytes(wanted); bounded {
		return min(available, free)
	}
	return available
}

func (c Config) zoneMistakes() (mistakes []Mistake) {
	seen := map[string]bool{}
	for _, z := range c.Zones {
		switch {
		case !labelValue.MatchString(z.Name):
			mistakes = append(mistakes, Mistake{
				"Zones", z.Name,
				"must have 1 to 63 letters, digits, dots, dashes and underscores, with a letter or digit at both ends",
			})
		case seen[z.Name]:
			mistakes = append(mistakes, Mistake{"Zones", z.Name, "is given twice"})
		case z.Bytes < 0:
			mistakes = append(mistakes, Mistake{
				"Zones", fmt.Sprintf("%s=%d", z.Name, z.Bytes), "the size must not be negative",
			})
		}
		seen[z.Name] = true
	}
	return mistakes
}
