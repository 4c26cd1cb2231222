package handle

import (
	"regexp"
	"strings"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// Kind is what a class of volumes consists of.
type Kind string

// The kinds, as the class parameter kind spells them.
const (
	RBD    Kind = "rbd"
	CephFS Kind = "cephfs"
)

// Place is where volumes are: the user of a request may do something there
// and nothing elsewhere.
type Place struct {
	Kind    Kind
	Cluster string
	// Pool is the pool of images, or the filesystem of subvolumes.
	Pool string
}

// String is for errors and logs.
func (p Place) String() string {
	if p.Kind == CephFS {
		return "filesystem " + p.Pool + " of cluster " + p.Cluster
	}
	return "pool " + p.Pool + " of cluster " + p.Cluster
}

// Object is one volume, snapshot or group.
type Object struct {
	Place
	// Name is the part of the object's name that is ours to choose; what
	// stands before it in the cluster is for the packages rbd and cephfs.
	Name string
	// Snap is the name of a snapshot; empty for a volume.
	Snap string
	// IsGroup says that Snap is of several volumes, the first of which is
	// Name.
	IsGroup bool
}

// The words that ids begin with.
const (
	volumeRBD, snapshotRBD, groupRBD = "rbd", "rbdsnap", "rbdgroup"
	volumeFS, snapshotFS             = "fs", "fssnap"
)

// maxPlace is how long cluster and pool together may be as they stand in an
// id: 128 characters, less the longest word, the dots, the longest name (40)
// and a snapshot (27).
const maxPlace = 49

var (
	clusterName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)
	// A first character that is no dash keeps programs from taking the name
	// for one of their options.
	poolName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,47}$`)
)

// Check says with a fault.Invalid error why a place cannot be used. The name
// of the cluster becomes part of a path.
func (p Place) Check() error {
	key := "pool"
	if p.Kind == CephFS {
		key = "fsName"
	}
	switch {
	case !clusterName.MatchString(p.Cluster):
		return fault.Invalid.Errorf(
			"parameters: clusterID %.64q must be 1 to 40 lower-case letters, digits and dashes",
			p.Cluster,
		)
	case p.Pool == "":
		return fault.Invalid.Errorf("parameters: %s is missing; name the one that volumes are to be made in", key)
	case !poolName.MatchString(p.Pool):
		return fault.Invalid.Errorf(
			"parameters: %s %.64q must be letters, digits, dots, dashes and underscores, at most 48, with a letter or digit first",
			key,
			p.Pool,
		)
	}
	if long := len(escape(p.Cluster)) + len(escape(p.Pool)); long > maxPlace {
		return fault.Invalid.Errorf(
			"parameters: clusterID and %s together have %d characters in a volume id (dots and underscores count three times), which has room for %d; choose a shorter name for the cluster",
			key,
			long,
			maxPlace,
		)
	}
	return nil
}

// Volume gives the object that a volume with this name is.
func Volume(p Place, name string) Object { return Object{Place: p, Name: nameOf(name)} }

// Snapshot gives the object that a snapshot of a volume with this name is.
func Snapshot(volume Object, name string) Object {
	volume.Snap = "s" + digest(name)
	return volume
}

// Group gives the object that a group of snapshots with this name is. It is
// found by the first of its volumes.
func Group(first Object, name string) Object {
	first.Snap, first.IsGroup = "g"+digest(name), true
	return first
}

// Member gives the snapshot of a volume that was made with a group.
func Member(volume, group Object) Object {
	volume.Snap = group.Snap
	return volume
}

// GroupOf gives the group that a snapshot was made with, if that group's first
// volume is named so.
func GroupOf(snapshot Object, first string) Object {
	snapshot.Name, snapshot.IsGroup = first, true
	return snapshot
}

// IsMember says that a snapshot was made with a group.
func (o Object) IsMember() bool { return strings.HasPrefix(o.Snap, "g") && !o.IsGroup }

// IsVolume says that the object is a volume.
func (o Object) IsVolume() bool { return o.Snap == "" }

// Volume gives the volume that a snapshot is of.
func (o Object) Volume() Object {
	o.Snap, o.IsGroup = "", false
	return o
}

// ID spells the object. An object that Check and the functions above made has
// one.
func (o Object) ID() (backend.ID, error) {
	parts := []string{o.word(), escape(o.Cluster), escape(o.Pool), escape(o.Name)}
	if !o.IsVolume() {
		parts = append(parts, o.Snap)
	}
	return backend.MakeID(strings.Join(parts, "."))
}

func (o Object) word() string {
	switch {
	case o.Kind == CephFS && o.IsVolume():
		return volumeFS
	case o.Kind == CephFS:
		return snapshotFS
	case o.IsVolume():
		return volumeRBD
	case o.IsGroup:
		return groupRBD
	default:
		return snapshotRBD
	}
}
