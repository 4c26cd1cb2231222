package driver

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// shelf is a backend in memory with every feature, for the rules of the
// services. The source of a staged volume is the staging path itself.
type shelf struct {
	mu        sync.Mutex
	volumes   map[backend.ID]backend.Volume
	snapshots map[backend.ID]backend.Snapshot
	groups    map[backend.ID]backend.Group
	mutable   map[backend.ID]map[string]string
	staged    map[backend.ID]string
	problems  map[backend.ID]string
	// failing are errors that the named method gives once.
	failing map[string]error
	// extents are what snapshots hold; surveying is called before they are
	// visited.
	extents   map[backend.ID][]backend.Extent
	surveying func(context.Context) error
	calls     []string
}

func newShelf() *shelf {
	return &shelf{
		volumes: map[backend.ID]backend.Volume{}, snapshots: map[backend.ID]backend.Snapshot{}, groups: map[backend.ID]backend.Group{},
		mutable: map[backend.ID]map[string]string{}, staged: map[backend.ID]string{}, problems: map[backend.ID]string{},
		failing: map[string]error{}, extents: map[backend.ID][]backend.Extent{},
	}
}

// enter counts a call and gives the error that is due.
func (s *shelf) enter(method string) error {
	s.calls = append(s.calls, method)
	err := s.failing[method]
	delete(s.failing, method)
	return err
}

func (s *shelf) CheckCapability(c backend.Capability) error {
	if c.FSType == "ntfs" {
		return fault.Invalid.Errorf("mount.fs_type %q: use another", c.FSType)
	}
	return nil
}

func (s *shelf) CheckParameters(parameters map[string]string) error {
	if _, bad := parameters["bad"]; bad {
		return fault.Invalid.Errorf("parameters: bad")
	}
	return nil
}

func (s *shelf) Create(_ context.Context, r backend.Request) (backend.Volume, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter("Create"); err != nil {
		return backend.Volume{}, err
	}
	v := backend.Volume{
		ID: r.ID, Name: r.Name, CapacityBytes: max(r.Size.Required, 1), Capabilities: r.Capabilities,
		Parameters: r.Parameters, Source: r.Source,
	}
	s.volumes[r.ID], s.mutable[r.ID] = v, r.Mutable
	return v, nil
}

func (s *shelf) Get(_ context.Context, id backend.ID) (backend.Volume, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, found := s.volumes[id]; found {
		return v, nil
	}
	return backend.Volume{}, backend.NoSuchVolume(id.String())
}

func (s *shelf) Delete(_ context.Context, id backend.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.volumes, id)
	return s.enter("Delete")
}

func (s *shelf) List(context.Context) ([]backend.ID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.volumes), compareIDs), nil
}

func (s *shelf) Available(context.Context) (int64, error) { return 1 << 40, nil }

func (s *shelf) LeastSize(capabilities []backend.Capability) (int64, error) {
	if len(capabilities) > 0 && capabilities[0].Type == backend.Mount {
		return 300, nil
	}
	return 0, nil
}

func (s *shelf) Usage(_ context.Context, _ backend.ID, path string) ([]backend.Usage, error) {
	return []backend.Usage{{Unit: backend.Bytes, Total: int64(len(path))}}, nil
}

func (s *shelf) Stage(_ context.Context, r backend.Staging) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter("Stage"); err != nil {
		return err
	}
	if _, found := s.volumes[r.Volume]; !found {
		return backend.NoSuchVolume(r.Volume.String())
	}
	s.staged[r.Volume] = r.Path
	return nil
}

func (s *shelf) Unstage(_ context.Context, id backend.ID, path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter("Unstage"); err != nil {
		return err
	}
	if s.staged[id] == path {
		delete(s.staged, id)
	}
	return nil
}

func (s *shelf) Staged(_ context.Context, id backend.ID, path string, access backend.AccessType) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.staged[id] != path {
		return "", fault.Unready.Errorf("volume %q is not staged at %q", id, path)
	}
	if access == backend.Block {
		return path + ".device", nil
	}
	return path, nil
}

// CheckVolume refuses what the volume was not made for.
func (s *shelf) CheckVolume(_ context.Context, id backend.ID, c backend.Capability) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.failing["CheckVolume"]; err != nil {
		return err
	}
	if made := s.volumes[id].Capabilities[0]; made.Type != c.Type {
		return fault.Unsupported.Errorf("volume %q is for %s", id, made.Type)
	}
	return nil
}

func (s *shelf) MaxVolumesPerNode() int64 { return 7 }

func (s *shelf) Expand(_ context.Context, id backend.ID, size backend.Range) (backend.Expansion, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter("Expand"); err != nil {
		return backend.Expansion{}, err
	}
	v := s.volumes[id]
	v.CapacityBytes = max(v.CapacityBytes, size.Required)
	s.volumes[id] = v
	return backend.Expansion{CapacityBytes: v.CapacityBytes, NodeMustExpand: true}, nil
}

func (s *shelf) NodeExpand(_ context.Context, e backend.NodeExpansion) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.volumes[e.Volume].CapacityBytes, s.enter("NodeExpand " + string(e.Access) + " " + e.StagingPath)
}

func (s *shelf) CheckMutable(mutable map[string]string) error {
	if _, bad := mutable["bad"]; bad {
		return fault.Invalid.Errorf("mutable_parameters: bad")
	}
	return nil
}

func (s *shelf) Modify(_ context.Context, id backend.ID, mutable map[string]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mutable[id] = mutable
	return s.enter("Modify")
}

func (s *shelf) Health(_ context.Context, id backend.ID) (backend.Problem, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, found := s.volumes[id]; !found {
		return backend.Problem{}, backend.NoSuchVolume(id.String())
	}
	if s.problems[id] == "unreadable" {
		return backend.Problem{}, fault.Internal.Errorf("volume %q is damaged", id)
	}
	problem := backend.Problem{Message: s.problems[id], Unusable: s.problems[id] == "gone"}
	if problem.Message != "" {
		problem.Reason = "Bad"
	}
	return problem, nil
}

func (s *shelf) CreateSnapshot(_ context.Context, r backend.SnapshotRequest) (backend.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter("CreateSnapshot"); err != nil {
		return backend.Snapshot{}, err
	}
	if has := s.volumes[r.Source].CapacityBytes; has != r.SourceBytes {
		return backend.Snapshot{}, fault.Internal.Errorf("the source has %d bytes, not %d", has, r.SourceBytes)
	}
	return s.snapshot(r.ID, r.Name, r.Source, ""), nil
}

func (s *shelf) snapshot(id backend.ID, name string, source backend.ID, group string) backend.Snapshot {
	s.snapshots[id] = backend.Snapshot{
		ID: id, Name: name, Source: source, SizeBytes: s.volumes[source].CapacityBytes, Group: group, Created: time.Unix(1, 0),
	}
	return s.snapshots[id]
}

func (s *shelf) GetSnapshot(_ context.Context, id backend.ID) (backend.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if snapshot, found := s.snapshots[id]; found {
		return snapshot, nil
	}
	return backend.Snapshot{}, noSuchSnapshot(id.String())
}

func (s *shelf) DeleteSnapshot(_ context.Context, id backend.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.snapshots, id)
	return s.enter("DeleteSnapshot")
}

func (s *shelf) ListSnapshots(context.Context) ([]backend.ID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.snapshots), compareIDs), nil
}

func (s *shelf) CreateGroup(_ context.Context, r backend.GroupRequest) (backend.Group, error) {
	for key := range r.Parameters { // as the backends
		return backend.Group{}, fault.Invalid.Errorf("parameters: %q is not known", key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := backend.Group{ID: r.ID, Name: r.Name, Created: time.Unix(1, 0)}
	for _, source := range r.Sources {
		name := r.Name + "-" + source.String()
		g.Snapshots = append(g.Snapshots, s.snapshot(backend.IDOf(name), name, source, r.ID.String()))
	}
	slices.SortFunc(g.Snapshots, func(a, b backend.Snapshot) int { return cmp.Compare(a.Name, b.Name) })
	s.groups[r.ID] = g
	return g, s.enter("CreateGroup")
}

func (s *shelf) GetGroup(_ context.Context, id backend.ID) (backend.Group, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, found := s.groups[id]; found {
		return g, nil
	}
	return backend.Group{}, fault.NotFound.Errorf("group %q does not exist", id)
}

func (s *shelf) DeleteGroup(_ context.Context, id backend.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, snapshot := range s.groups[id].Snapshots {
		delete(s.snapshots, snapshot.ID)
	}
	delete(s.groups, id)
	return s.enter("DeleteGroup")
}
