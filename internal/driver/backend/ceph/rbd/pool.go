package rbd

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// Tools runs programs; a command.Runner.
type Tools interface {
	Run(context.Context, command.Call) ([]byte, error)
}

// Pool is one pool as one user may use it.
type Pool struct {
	Tools  Tools
	Access command.Access
	Place  handle.Place
}

// The beginnings of names.
const (
	ours    = "purser."
	deleted = "purser-deleted."
)

// Keys of the metadata of an image.
const (
	recordKey  = "purser"
	snapPrefix = "purser.snap."
	groupKey   = "purser.group."
)

// ImageName is the name of the image of a volume.
func ImageName(o handle.Object) string { return ours + o.Name }

func deletedName(o handle.Object, id string) string { return deleted + o.Name + "." + id }

// spec names an image, or a snapshot as image@snap, to the program.
func (p Pool) spec(image string) string { return p.Place.Pool + "/" + image }

// rbd runs the program.
func (p Pool) rbd(ctx context.Context, arguments ...string) ([]byte, error) {
	return p.Tools.Run(ctx, command.Call{Program: command.RBD, Access: p.Access, Arguments: arguments})
}

// patiently lets it run to its end, also when the caller is cancelled. A retry meanwhile gets the
// error that it is still running.
func (p Pool) patiently(ctx context.Context, arguments ...string) error {
	const patience = 24 * time.Hour
	_, err := p.Tools.Run(context.WithoutCancel(ctx), command.Call{
		Program: command.RBD, Access: p.Access, Arguments: arguments, Patience: patience,
	})
	return err
}

// ask runs it and parses its output.
func (p Pool) ask(ctx context.Context, answer any, arguments ...string) error {
	out, err := p.rbd(ctx, append(arguments, "--format=json")...)
	if err != nil {
		return err
	}
	return parse(out, answer, arguments)
}

func parse(out []byte, answer any, arguments []string) error {
	if err := json.Unmarshal(out, answer); err != nil {
		return fault.Internal.Errorf("rbd %s answered what this program cannot read: %w", strings.Join(arguments, " "), err)
	}
	return nil
}

// manager runs ceph to start a task of the cluster's manager. The program takes half a second to
// start.
func (p Pool) manager(ctx context.Context, arguments ...string) error {
	_, err := p.Tools.Run(ctx, command.Call{Program: command.Ceph, Access: p.Access, Arguments: arguments})
	return err
}

// isMissing reports whether a program did not find the object of its arguments.
func isMissing(err error) bool { return errors.Is(err, unix.ENOENT) }

// unlessMissing makes a removal repeatable.
func unlessMissing(_ []byte, err error) error {
	if isMissing(err) {
		return nil
	}
	return err
}

// unlessThere makes a creation repeatable.
func unlessThere(_ []byte, err error) error {
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// metadata gives a value that is kept with an image; fault.NotFound when there
// is none, or no image.
func (p Pool) metadata(ctx context.Context, image, key string) (string, error) {
	out, err := p.rbd(ctx, "image-meta", "get", p.spec(image), key)
	return strings.TrimSuffix(string(out), "\n"), err
}

func (p Pool) setMetadata(ctx context.Context, image, key, value string) error {
	_, err := p.rbd(ctx, "image-meta", "set", p.spec(image), key, value)
	return err
}

func (p Pool) removeMetadata(ctx context.Context, image, key string) error {
	return unlessMissing(p.rbd(ctx, "image-meta", "remove", p.spec(image), key))
}

// info is what rbd info says of an image.
type info struct {
	ID     string  `json:"id"`
	Name   string  `json:"name"`
	Size   int64   `json:"size"`
	Parent *parent `json:"parent"`
}

// parent is the snapshot from which a clone reads the parts that it has not written.
type parent struct {
	Pool    string `json:"pool"`
	Image   string `json:"image"`
	ID      string `json:"id"`
	InTrash bool   `json:"trash"`
}

func (p Pool) info(ctx context.Context, image string) (info, error) {
	var i info
	return i, p.ask(ctx, &i, "info", p.spec(image))
}

// infoByID finds images in the trash as well.
func (p Pool) infoByID(ctx context.Context, pool, id string) (info, error) {
	var i info
	return i, p.ask(ctx, &i, "info", "--pool="+pool, "--image-id="+id)
}

// names lists the images of the pool, not only ours.
func (p Pool) names(ctx context.Context) ([]string, error) {
	var all []string
	return all, p.ask(ctx, &all, "ls", p.Place.Pool)
}

// object reads the name of the image of a volume; false for others.
func (p Pool) object(image string) (handle.Object, bool) {
	name, is := strings.CutPrefix(image, ours)
	if !is || !handle.IsName(name) {
		return handle.Object{}, false
	}
	return handle.Object{Place: p.Place, Name: name}, true
}

// deletedObject reads the name of a volume that was deleted and has snapshots.
func (p Pool) deletedObject(image string) (handle.Object, bool) {
	rest, is := strings.CutPrefix(image, deleted)
	name, _, hasID := strings.Cut(rest, ".")
	if !is || !hasID || !handle.IsName(name) {
		return handle.Object{}, false
	}
	return handle.Object{Place: p.Place, Name: name}, true
}

// List gives the ids of the volumes in the pool.
func (p Pool) List(ctx context.Context) (ids []backend.ID, err error) {
	images, err := p.names(ctx)
	if err != nil {
		return nil, err
	}
	for _, image := range images {
		o, is := p.object(image)
		if !is {
			continue
		}
		id, err := o.ID()
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}
