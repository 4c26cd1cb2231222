package record

import (
	"encoding/json"
	"fmt"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// Format is raised when an older program would misread the text.
const Format = 1

type volume struct {
	Format       int               `json:"format"`
	Name         string            `json:"name"`
	Capabilities []capability      `json:"capabilities"`
	Parameters   map[string]string `json:"parameters,omitempty"`
	FromSnapshot string            `json:"fromSnapshot,omitempty"`
	FromVolume   string            `json:"fromVolume,omitempty"`
}

// capability has no mount flags: they may be sensitive.
type capability struct {
	AccessType backend.AccessType `json:"accessType"`
	AccessMode backend.AccessMode `json:"accessMode"`
	FSType     string             `json:"fsType,omitempty"`
}

// OfRequest is the record of a volume that is made for a request.
func OfRequest(r backend.Request) (string, error) {
	v := volume{
		Format: Format, Name: r.Name, Parameters: r.Parameters,
		FromSnapshot: r.Source.Snapshot.String(), FromVolume: r.Source.Volume.String(),
	}
	for _, c := range r.Capabilities {
		v.Capabilities = append(v.Capabilities, capability{c.Type, c.Mode, c.FSType})
	}
	text, err := json.Marshal(v)
	return string(text), err
}

// Volume reads the record of an object; its size is not in it. A record of
// another object is fault.NotFound: this one is not complete.
func Volume(o handle.Object, text string) (backend.Volume, error) {
	id, err := o.ID()
	if err != nil {
		return backend.Volume{}, err
	}
	var v volume
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return backend.Volume{}, damaged(id, err)
	}
	if v.Format != Format {
		return backend.Volume{}, damaged(id, fmt.Errorf("it has format %d, this program reads format %d", v.Format, Format))
	}
	if handle.Volume(o.Place, v.Name) != o {
		return backend.Volume{}, backend.NoSuchVolume(id.String())
	}
	source, err := sourceOf(v)
	if err != nil {
		return backend.Volume{}, damaged(id, err)
	}
	made := backend.Volume{ID: id, Name: v.Name, Parameters: v.Parameters, Source: source}
	for _, c := range v.Capabilities {
		made.Capabilities = append(
			made.Capabilities,
			backend.Capability{Type: c.AccessType, Mode: c.AccessMode, FSType: c.FSType},
		)
	}
	return made, nil
}

func sourceOf(v volume) (s backend.Source, err error) {
	if v.FromSnapshot != "" {
		s.Snapshot, err = backend.MakeID(v.FromSnapshot)
	}
	if v.FromVolume != "" && err == nil {
		s.Volume, err = backend.MakeID(v.FromVolume)
	}
	return s, err
}

func damaged(id backend.ID, cause error) error {
	return fault.Internal.Errorf("the record of volume %q cannot be read: %w; restore it or delete the volume", id, cause)
}

// Snapshot is the record of a snapshot or a group.
type Snapshot struct {
	Format int    `json:"format"`
	Name   string `json:"name"`
	// Group is the id of the group that a snapshot was made with.
	Group string `json:"group,omitempty"`
	// Sources are the ids of the volumes of a group.
	Sources []string `json:"sources,omitempty"`
}

// Text writes it.
func (s Snapshot) Text() (string, error) {
	s.Format = Format
	text, err := json.Marshal(s)
	return string(text), err
}

// ReadSnapshot reads what Text wrote.
func ReadSnapshot(id backend.ID, text string) (Snapshot, error) {
	var s Snapshot
	err := json.Unmarshal([]byte(text), &s)
	if err == nil && s.Format != Format {
		err = fmt.Errorf("it has format %d, this program reads format %d", s.Format, Format)
	}
	if err != nil {
		return s, fault.Internal.Errorf("the record of snapshot %q cannot be read: %w; delete the snapshot", id, err)
	}
	return s, nil
}

// SourceIDs are Sources as ids.
func (s Snapshot) SourceIDs() (ids []backend.ID, err error) {
	for _, text := range s.Sources {
		id, err := backend.MakeID(text)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}
