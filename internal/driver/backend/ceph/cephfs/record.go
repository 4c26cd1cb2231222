package cephfs

import (
	"encoding/json"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/record"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// snapshotRecord has the size of the volume as well: the manager does not tell
// what the quota was.
type snapshotRecord struct {
	record.Snapshot
	Bytes int64 `json:"bytes"`
}

func (r snapshotRecord) text() (string, error) {
	r.Format = record.Format
	text, err := json.Marshal(r)
	return string(text), err
}

func readSnapshotRecord(id backend.ID, text string) (r snapshotRecord, err error) {
	if r.Snapshot, err = record.ReadSnapshot(id, text); err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, fault.Internal.Errorf("the record of snapshot %q cannot be read: %w; delete the snapshot", id, err)
	}
	return r, nil
}
