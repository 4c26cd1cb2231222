package csidriver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Fault is the fault of one call. The zero value is a successful call.
type Fault struct {
	Code   codes.Code    // of the answer
	Effect Effect        // on the storage, when there is a Code
	After  time.Duration // of a late effect, from the beginning of the call
	Shape  Shape         // of a good answer
}

// Effect says whether a call with an error has done its work.
type Effect int

const (
	// None is a call without an effect.
	None Effect = iota
	// Done is a call with its effect whose answer is lost.
	Done
	// Late is a call whose effect comes after the caller has its answer.
	Late
)

// Shape is the mistake in an answer with the code OK.
type Shape int

const (
	// Whole is a correct answer.
	Whole Shape = iota
	// Empty is an answer without a volume.
	Empty
	// Small is a volume smaller than asked for.
	Small
)

// Volume is one volume of the backend.
type Volume struct {
	Name, ID string
	Request  *csi.CreateVolumeRequest
	Bytes    int64
	Classes  []string // of VolumeAttributesClasses, the last one is the volume's
}

// Driver is the backend. It is safe for concurrent use.
type Driver struct {
	// Locks says that a call for a volume with another call in flight is answered with Aborted.
	// Without it a late effect happens regardless of later calls, which a caller can only handle by
	// waiting for longer than a call can take.
	Locks bool
	// Vague says that a different request for an existing volume is refused as invalid, and not
	// with AlreadyExists.
	Vague bool
	// Shares says that every request is answered with the same volume, as with a driver whose class
	// is one file share. The volume exists from the first request to the first deletion.
	Shares bool
	// Named says that the id of a volume is derived from its name: a volume that is created again
	// has the same id.
	Named bool
	// FirstUnanswered says that the answer to the call that creates the first volume is lost.
	FirstUnanswered bool
	// SourceGoes says that the source of each volume is gone when DeleteVolume is first called for the
	// volume: that call fails, and CreateVolume of this name is refused from then on.
	SourceGoes bool
	// Calling is called with each call that arrives, also one that is refused; may be nil.
	Calling func(call string)
	// Deleting is called for each volume right before it is deleted; may be nil.
	Deleting func(id string)

	mu      sync.Mutex
	down    bool
	gone    bool
	full    map[string]bool    // by node
	volumes map[string]*Volume // by name
	busy    map[string]bool    // by name
	made    int
	counts  map[string]int
	bereft  map[string]bool // the names of volumes without their source

	published map[Publication]bool
	snapshots map[string]bool // by id
}

// New returns an empty driver.
func New() *Driver {
	return &Driver{
		full: map[string]bool{}, volumes: map[string]*Volume{}, busy: map[string]bool{},
		counts: map[string]int{}, bereft: map[string]bool{}, published: map[Publication]bool{}, snapshots: map[string]bool{},
	}
}

// Volumes returns all volumes, sorted by name.
func (d *Driver) Volumes() []Volume {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]Volume, 0, len(d.volumes))
	for _, v := range d.volumes {
		all = append(all, *v)
	}
	slices.SortFunc(all, func(a, b Volume) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Adopt adds a volume that another client created, and returns its id.
func (d *Driver) Adopt(name string) (id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.volumes[name] = &Volume{Name: name, ID: name}
	return name
}

// Made returns how many volumes were created so far.
func (d *Driver) Made() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made
}

// NameOf returns the name of the volume with an id, or the id if there is none.
func (d *Driver) NameOf(id string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.byID(id); v != nil {
		return v.Name
	}
	return id
}

func (d *Driver) byID(id string) *Volume {
	for _, v := range d.volumes {
		if v.ID == id {
			return v
		}
	}
	return nil
}

// latency returns how long a call takes; the durations differ, so that no two calls end at the same
// instant of virtual time.
func (d *Driver) latency() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts["calls"]++
	return 2*time.Millisecond + time.Duration(d.counts["calls"]*13%97)*10*time.Microsecond
}

// nameFor returns the name under which the volume of a request is stored.
func (d *Driver) nameFor(request *csi.CreateVolumeRequest) string {
	if d.Shares {
		return "share"
	}
	return request.GetName()
}

// Create is CreateVolume with a script.
func (d *Driver) Create(ctx context.Context, request *csi.CreateVolumeRequest, f Fault) (*csi.CreateVolumeResponse,
	error,
) {
	d.arrives("CreateVolume", request.GetName())
	var made *Volume
	err := d.run(ctx, d.nameFor(request), f, func() (err error) {
		made, err = d.create(request, f.Shape)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case f.Shape == Empty:
		return &csi.CreateVolumeResponse{}, nil
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: made.ID, CapacityBytes: made.Bytes,
		AccessibleTopology: made.Request.GetAccessibilityRequirements().GetPreferred(),
		ContentSource:      made.Request.GetVolumeContentSource(),
	}}, nil
}

// KeyNode is the topology key of a driver whose volumes are on one node.
const KeyNode = "sim/node"

// NodeOf returns the node in the topology of a request; empty for any.
func NodeOf(request *csi.CreateVolumeRequest) string {
	for _, place := range request.GetAccessibilityRequirements().GetPreferred() {
		return place.GetSegments()[KeyNode]
	}
	return ""
}

// Fill sets whether a node is full.
func (d *Driver) Fill(node string, full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full[node] = full
}

// Down makes the driver refuse each DeleteVolume without an effect, or work again.
func (d *Driver) Down(down bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = down
}

// Unreachable makes each call fail without an effect, or work again.
func (d *Driver) Unreachable(gone bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = gone
}

func (d *Driver) isGone() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.gone
}

func (d *Driver) isDown() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.down
}

// arrives reports a call.
func (d *Driver) arrives(method string, arguments ...string) {
	if d.Calling != nil {
		d.Calling(method + " " + strings.Join(arguments, " "))
	}
}

// Delete is DeleteVolume with a script.
func (d *Driver) Delete(ctx context.Context, id string, f Fault) error {
	d.arrives("DeleteVolume", id)
	if d.isDown() {
		return status.Error(codes.FailedPrecondition, "the backend is down")
	}
	name := d.NameOf(id)
	if d.sourceGoes(name) {
		return status.Error(codes.FailedPrecondition, "the source is being deleted")
	}
	return d.run(ctx, name, f, func() error { d.delete(id); return nil })
}

// sourceGoes reports whether the source of a volume goes at this call.
func (d *Driver) sourceGoes(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.SourceGoes || d.bereft[name] {
		return false
	}
	d.bereft[name] = true
	return true
}

// run applies the fault of a call: its latency, its effect and its answer.
func (d *Driver) run(ctx context.Context, name string, f Fault, work func() error) error {
	if d.isGone() {
		return status.Error(codes.Unavailable, "there is no driver")
	}
	if !d.begin(name) {
		return status.Error(codes.Aborted, "an operation for this volume is under way")
	}
	if f.Effect == Late {
		go func() {
			defer d.end(name)
			time.Sleep(f.After)
			_ = work() // the result is lost
		}()
	} else {
		defer d.end(name)
	}
	timer := time.NewTimer(d.latency())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	if f.Effect == Late && f.Code == codes.DeadlineExceeded {
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	}
	if f.Code == codes.OK {
		return work()
	}
	if f.Effect == Done {
		_ = work() // the answer is lost
	}
	return status.Error(f.Code, "as the script says")
}

func (d *Driver) begin(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.Locks {
		return true
	}
	if d.busy[name] {
		return false
	}
	d.busy[name] = true
	return true
}

func (d *Driver) end(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.busy, name)
}

func (d *Driver) create(request *csi.CreateVolumeRequest, shape Shape) (*Volume, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bereft[request.GetName()] {
		return nil, status.Error(codes.NotFound, "the source is gone")
	}
	if have := d.volumes[d.nameFor(request)]; have != nil {
		switch {
		case d.Shares:
		case !proto.Equal(have.Request, request) && d.Vague:
			return nil, status.Error(codes.InvalidArgument, "no such parameter")
		case !proto.Equal(have.Request, request):
			return nil, status.Error(codes.AlreadyExists, "a volume of this name exists and is another one")
		}
		return have, nil
	}
	if from := request.GetVolumeContentSource(); from != nil && !d.has(from) {
		return nil, status.Error(codes.NotFound, "there is no such source")
	}
	if node := NodeOf(request); d.full[node] {
		return nil, status.Errorf(codes.ResourceExhausted, "no room on node %q", node)
	}
	d.made++
	id := fmt.Sprint("vol-", d.made)
	if d.Named {
		id = "vol-" + d.nameFor(request)
	}
	v := &Volume{
		Name: d.nameFor(request), ID: id,
		Request: proto.Clone(request).(*csi.CreateVolumeRequest),
		Bytes:   request.GetCapacityRange().GetRequiredBytes(),
	}
	if shape == Small {
		v.Bytes--
	}
	d.volumes[v.Name] = v
	if d.FirstUnanswered && d.made == 1 {
		return nil, status.Error(codes.Unavailable, "the answer is lost")
	}
	return v, nil
}

func (d *Driver) delete(id string) {
	if d.Deleting != nil {
		d.Deleting(id)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.byID(id); v != nil {
		delete(d.volumes, v.Name)
	}
}
