package driver

import "github.com/purser-csi/purser/internal/driver/backend"

// naming makes ids of names, and checks those that come from outside: as the
// backend wants it, or by the rule that every other backend follows.
type naming struct{ namer backend.Namer }

func (n naming) volume(name string, parameters map[string]string) (backend.ID, error) {
	if n.namer != nil {
		return n.namer.VolumeID(name, parameters)
	}
	return backend.IDOf(name), nil
}

func (n naming) snapshot(name string, source backend.ID) (backend.ID, error) {
	if n.namer != nil {
		return n.namer.SnapshotID(name, source)
	}
	return backend.IDOf(name), nil
}

// group makes the id of a group of snapshots.
func (n naming) group(name string, sources []backend.ID) (backend.ID, error) {
	if namer, ok := n.namer.(backend.GroupNamer); ok {
		return namer.GroupID(name, sources)
	}
	return backend.IDOf(name), nil
}

// mayBeMember is false for a snapshot whose id says that it was made alone.
func (n naming) mayBeMember(id backend.ID) bool {
	namer, tells := n.namer.(backend.GroupNamer)
	return !tells || namer.IsMember(id)
}

// parse gives fault.NotFound for an id that the backend cannot have made.
func (n naming) parse(text string) (backend.ID, error) {
	if n.namer != nil {
		return n.namer.ParseID(text)
	}
	return backend.ParseID(text)
}
