package cephfs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/record"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// Tools runs programs; a command.Runner.
type Tools interface {
	Run(context.Context, command.Call) ([]byte, error)
}

// Filesystem is one filesystem as one user may use it.
type Filesystem struct {
	Tools  Tools
	Access command.Access
	Place  handle.Place
	// Wait is how long a call waits for a copy; DefaultWait when zero.
	Wait time.Duration
}

// wait is Wait or what it is by default.
func (f Filesystem) wait() time.Duration { return cmp.Or(f.Wait, DefaultWait) }

const (
	// group holds our subvolumes, so that others are not taken for volumes.
	group    = "purser"
	groupArg = "--group_name=" + group
	// recordKey is the metadata with the record.
	recordKey = "purser"
	// mode lets pods of any user write, as an empty directory would.
	mode = "--mode=777"
)

func (f Filesystem) run(ctx context.Context, arguments ...string) ([]byte, error) {
	return f.Tools.Run(
		ctx,
		command.Call{Program: command.Ceph, Access: f.Access, Arguments: append([]string{"fs"}, arguments...)},
	)
}

func (f Filesystem) ask(ctx context.Context, answer any, arguments ...string) error {
	out, err := f.run(ctx, append(arguments, "--format=json")...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, answer); err != nil {
		return fault.Internal.Errorf(
			"ceph fs %s answered what this program cannot read: %w",
			strings.Join(arguments, " "),
			err,
		)
	}
	return nil
}

// subvolume runs a command on the subvolume of an object.
func (f Filesystem) subvolume(ctx context.Context, verb string, o handle.Object, more ...string) ([]byte, error) {
	return f.run(ctx, append([]string{"subvolume", verb, f.Place.Pool, o.Name, groupArg}, more...)...)
}

func isMissing(err error) bool { return errors.Is(err, unix.ENOENT) }

// said is what the program printed, which tells what it is that is missing.
func said(err error) string {
	if f, ok := errors.AsType[*command.Failure](err); ok {
		return f.Said
	}
	return ""
}

// info is the manager's description of a subvolume.
type info struct {
	// Quota is a number, or the word infinite.
	Quota    any    `json:"bytes_quota"`
	Path     string `json:"path"`
	State    string `json:"state"`
	DataPool string `json:"data_pool"`
}

func (i info) bytes() int64 {
	bytes, _ := i.Quota.(float64)
	return int64(bytes)
}

// retained is the state of a deleted volume that has snapshots.
const retained = "snapshot-retained"

// info gives fault.NotFound when there is no subvolume, and fault.Busy while
// the cluster copies one.
func (f Filesystem) info(ctx context.Context, o handle.Object) (info, error) {
	var i info
	return i, f.ask(ctx, &i, "subvolume", "info", f.Place.Pool, o.Name, groupArg)
}

// Get describes a volume. A subvolume without a record is none yet.
func (f Filesystem) Get(ctx context.Context, o handle.Object) (backend.Volume, error) {
	id, err := o.ID()
	if err != nil {
		return backend.Volume{}, err
	}
	i, err := f.info(ctx, o)
	if isMissing(err) || errors.Is(err, unix.EAGAIN) || (err == nil && i.State == retained) {
		return backend.Volume{}, backend.NoSuchVolume(id.String())
	}
	if err != nil {
		return backend.Volume{}, err
	}
	text, err := f.record(ctx, o)
	if isMissing(err) {
		return backend.Volume{}, backend.NoSuchVolume(id.String())
	}
	if err != nil {
		return backend.Volume{}, err
	}
	volume, err := record.Volume(o, text)
	volume.CapacityBytes = i.bytes()
	return volume, err
}

func (f Filesystem) record(ctx context.Context, o handle.Object) (string, error) {
	out, err := f.run(ctx, "subvolume", "metadata", "get", f.Place.Pool, o.Name, recordKey, groupArg)
	return strings.TrimSpace(string(out)), err
}

// Path is where the content of a volume is in the filesystem.
func (f Filesystem) Path(ctx context.Context, o handle.Object) (string, error) {
	i, err := f.info(ctx, o)
	if isMissing(err) || (err == nil && i.State == retained) {
		id, _ := o.ID()
		return "", backend.NoSuchVolume(id.String())
	}
	return i.Path, err
}

// Blueprint is a new subvolume.
type Blueprint struct {
	Object  handle.Object
	Request backend.Request
	Bytes   int64
	// DataPool is the class's wish; empty for the filesystem's default.
	DataPool string
}

// Create makes a subvolume. Every step can be repeated, and the record is the
// last one.
func (f Filesystem) Create(ctx context.Context, b Blueprint) error {
	text, err := record.OfRequest(b.Request)
	if err != nil {
		return err
	}
	if b.Request.Source.IsNothing() {
		err = f.createEmpty(ctx, b)
	} else {
		err = f.createFrom(ctx, b)
	}
	if err != nil {
		return err
	}
	_, err = f.run(ctx, "subvolume", "metadata", "set", f.Place.Pool, b.Object.Name, recordKey, text, groupArg)
	return err
}

func (f Filesystem) createEmpty(ctx context.Context, b Blueprint) error {
	create := func() error {
		options := []string{"--size=" + strconv.FormatInt(b.Bytes, 10), mode}
		if b.DataPool != "" {
			options = append(options, "--pool_layout="+b.DataPool)
		}
		_, err := f.subvolume(ctx, "create", b.Object, options...)
		return err
	}
	return f.withGroup(ctx, create)
}

// withGroup makes the group of our subvolumes when a step fails without it.
func (f Filesystem) withGroup(ctx context.Context, step func() error) error {
	err := step()
	if !isMissing(err) || !strings.Contains(said(err), "group") {
		return f.explainMissing(err)
	}
	if _, err := f.run(ctx, "subvolumegroup", "create", f.Place.Pool, group); err != nil {
		return f.explainMissing(err)
	}
	return f.explainMissing(step())
}

func (f Filesystem) explainMissing(err error) error {
	if isMissing(err) && strings.Contains(said(err), "FS '") {
		return fault.Invalid.Errorf(
			"parameters: fsName %q is no filesystem of cluster %q; `ceph fs ls` lists them: %w",
			f.Place.Pool,
			f.Place.Cluster,
			err,
		)
	}
	return err
}

// Expand sets a larger quota; one that is large enough stays. It has to look:
// the manager refuses only a quota below the content.
func (f Filesystem) Expand(ctx context.Context, o handle.Object, bytes int64) (now int64, err error) {
	i, err := f.info(ctx, o)
	if isMissing(err) {
		id, _ := o.ID()
		return 0, backend.NoSuchVolume(id.String())
	}
	if err != nil || i.bytes() >= bytes {
		return i.bytes(), err
	}
	return bytes, f.resize(ctx, o, bytes)
}

func (f Filesystem) resize(ctx context.Context, o handle.Object, bytes int64) error {
	_, err := f.run(
		ctx,
		"subvolume",
		"resize",
		f.Place.Pool,
		o.Name,
		strconv.FormatInt(bytes, 10),
		groupArg,
		"--no_shrink",
	)
	return err
}

// Delete removes a volume. Its snapshots stay, and the rest of the subvolume is removed with the
// last of them.
func (f Filesystem) Delete(ctx context.Context, o handle.Object) error {
	err := f.remove(ctx, o)
	if errors.Is(err, unix.EAGAIN) {
		return f.cancelClone(ctx, o)
	}
	if !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	if err := f.removeCloneSnaps(ctx, o); err != nil {
		return err
	}
	return f.remove(ctx, o, "--retain-snapshots")
}

// remove removes a subvolume. One that does not exist is not an error.
func (f Filesystem) remove(ctx context.Context, o handle.Object, options ...string) error {
	_, err := f.subvolume(ctx, "rm", o, options...)
	if isMissing(err) {
		return nil
	}
	return err
}

// names lists the subvolumes of our group; none when there is no group.
func (f Filesystem) names(ctx context.Context) ([]string, error) {
	var all []named
	if err := f.ask(ctx, &all, "subvolume", "ls", f.Place.Pool, groupArg); err != nil {
		if isMissing(err) && strings.Contains(said(err), "group") {
			return nil, nil
		}
		return nil, err
	}
	return namesOf(all), nil
}

type named struct {
	Name string `json:"name"`
}

func namesOf(all []named) (names []string) {
	for _, one := range all {
		names = append(names, one.Name)
	}
	return names
}

// objects are the volumes that there are or were.
func (f Filesystem) objects(ctx context.Context) (all []handle.Object, err error) {
	names, err := f.names(ctx)
	for _, name := range names {
		if handle.IsName(name) {
			all = append(all, handle.Object{Place: f.Place, Name: name})
		}
	}
	return all, err
}

// List gives the ids of the volumes. Some can be deleted ones of which there
// are snapshots; Get tells.
func (f Filesystem) List(ctx context.Context) (ids []backend.ID, err error) {
	all, err := f.objects(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range all {
		id, err := o.ID()
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// DataPool is the pool that the content of volumes is in.
func (f Filesystem) DataPool(ctx context.Context) (string, error) {
	var all []struct {
		Name  string   `json:"name"`
		Pools []string `json:"data_pools"`
	}
	if err := f.ask(ctx, &all, "ls"); err != nil {
		return "", err
	}
	for _, fs := range all {
		if fs.Name == f.Place.Pool && len(fs.Pools) > 0 {
			return fs.Pools[0], nil
		}
	}
	return "", fault.NotFound.Errorf("cluster %q has no filesystem %q", f.Place.Cluster, f.Place.Pool)
}
