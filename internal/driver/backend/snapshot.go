package backend

import (
	"context"
	"time"
)

// Snapshotter is a backend that can keep the content of a volume at one point in time:
// CREATE_DELETE_SNAPSHOT, LIST_SNAPSHOTS and GET_SNAPSHOT. A new volume can begin with a snapshot or
// with another volume (Request.Source): CLONE_VOLUME.
type Snapshotter interface {
	// CreateSnapshot makes a snapshot that does not exist. The content is
	// that of one point in time. When it fails it leaves nothing behind, or
	// something that a repeated call repairs.
	CreateSnapshot(ctx context.Context, r SnapshotRequest) (Snapshot, error)
	// GetSnapshot describes a snapshot; fault.NotFound when there is none.
	GetSnapshot(ctx context.Context, id ID) (Snapshot, error)
	// DeleteSnapshot removes a snapshot; volumes that began with it keep
	// their content. One that does not exist is not an error.
	DeleteSnapshot(ctx context.Context, id ID) error
	// ListSnapshots gives the ids of all snapshots in ascending order.
	ListSnapshots(ctx context.Context) ([]ID, error)
}

// SnapshotRequest asks for a new snapshot.
type SnapshotRequest struct {
	ID     ID
	Name   string
	Source ID
	// SourceBytes is the size of the source, which was looked at just before.
	SourceBytes int64
	// SourceLeast is Volume.LeastBytes of it.
	SourceLeast int64
	Parameters  map[string]string
}

// Snapshot describes a snapshot that exists.
type Snapshot struct {
	ID     ID
	Name   string
	Source ID
	// SizeBytes is the least size of a volume that begins with it.
	SizeBytes int64
	// LeastBytes is the least request for such a volume, where that is less than SizeBytes; see
	// LeastRequest.
	LeastBytes int64
	Created    time.Time
	// Group is the id of the group that it was made with; empty for none.
	Group string
}

// Source is what a new volume begins with: a snapshot, or another volume.
// The zero value is nothing.
type Source struct {
	Snapshot ID
	Volume   ID
}

// IsNothing says that the volume begins empty.
func (s Source) IsNothing() bool { return s == Source{} }

// Grouper is a backend that can snapshot several volumes at one point in time:
// CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT. Its group's snapshots are those of
// Snapshotter too.
type Grouper interface {
	// CreateGroup makes a group of snapshots, one of each source, that does
	// not exist.
	CreateGroup(ctx context.Context, r GroupRequest) (Group, error)
	// GetGroup describes a group; fault.NotFound when there is none.
	GetGroup(ctx context.Context, id ID) (Group, error)
	// DeleteGroup removes a group and its snapshots. One that does not exist
	// is not an error.
	DeleteGroup(ctx context.Context, id ID) error
}

// GroupRequest asks for a new group of snapshots.
type GroupRequest struct {
	ID      ID
	Name    string
	Sources []ID
	// SourceLeast are Volume.LeastBytes of them, in their order.
	SourceLeast []int64
	Parameters  map[string]string
}

// Group describes a group of snapshots that exists.
type Group struct {
	ID        ID
	Name      string
	Snapshots []Snapshot
	Created   time.Time
}
