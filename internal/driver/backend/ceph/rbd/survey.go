package rbd

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// surveyTime bounds the program, which asks for every object of an image. A
// cancelled caller ends it earlier.
const surveyTime = time.Hour

// part is what rbd diff says of a part of an image.
type part struct {
	Extent
	Exists string `json:"exists"`
}

// isZeros says that the part is known to be zeros.
func (p part) isZeros() bool { return p.Exists == "false" }

// Allocated visits the parts of a snapshot that may hold something else than
// zeros: those that were written, and those that a clone reads from its parent.
func (p Pool) Allocated(ctx context.Context, o handle.Object, visit func(backend.Extent) error) error {
	parts, err := p.survey(ctx, o, func(image string, _ snap) ([]string, error) {
		return []string{p.spec(image) + "@" + o.Snap}, nil
	})
	if err != nil {
		return err
	}
	return visitAll(slices.DeleteFunc(parts, part.isZeros), visit)
}

// Changed visits the parts of a snapshot that were written after another one
// of the same image.
func (p Pool) Changed(ctx context.Context, base, target handle.Object, visit func(backend.Extent) error) error {
	if base == target {
		return nil // the program takes this for a mistake
	}
	parts, err := p.survey(ctx, target, func(image string, found snap) ([]string, error) {
		if err := p.checkBase(ctx, image, base, found); err != nil {
			return nil, err
		}
		return []string{"--from-snap=" + base.Snap, p.spec(image) + "@" + target.Snap}, nil
	})
	if err != nil {
		return err
	}
	// What became zeros has changed too.
	return visitAll(parts, visit)
}

// survey compares a snapshot with the snapshot or image of the arguments. An
// image gets another name while its volume is deleted, so survey looks up a
// missing image a second time.
func (p Pool) survey(
	ctx context.Context,
	o handle.Object,
	arguments func(image string, found snap) ([]string, error),
) (parts []part, err error) {
	for range 2 {
		image, found, err := p.find(ctx, o)
		if err != nil {
			return nil, err
		}
		if err := checkAlone(o); err != nil {
			return nil, err
		}
		more, err := arguments(image, found)
		if err != nil {
			return nil, err
		}
		if parts, err = p.diff(ctx, more...); !isMissing(err) {
			return parts, err
		}
	}
	return nil, fault.Busy.Errorf("the image of snapshot %q of volume %q changes its name; try again", o.Snap, o.Name)
}

// diff runs the program. It compares within objects: without --whole-object, a change of some bytes
// is not reported as one of 4 MiB.
func (p Pool) diff(ctx context.Context, arguments ...string) (parts []part, err error) {
	arguments = append(append([]string{"diff"}, arguments...), "--format=json")
	out, err := p.Tools.Run(
		ctx,
		command.Call{Program: command.RBD, Access: p.Access, Arguments: arguments, Patience: surveyTime},
	)
	if err != nil {
		return nil, err
	}
	return parts, parse(out, &parts, arguments)
}

// checkBase wants an older snapshot of the same image.
func (p Pool) checkBase(ctx context.Context, image string, base handle.Object, target snap) error {
	if err := checkAlone(base); err != nil {
		return err
	}
	older, err := p.findAt(ctx, image, base)
	if fault.NotFound.Is(err) {
		if _, _, err := p.find(ctx, base); err != nil {
			return err
		}
		return fault.Invalid.Errorf(
			"snapshots %q and %q are of two volumes that were both named %q, one after the other; name two of the same volume",
			base.Snap,
			target.Name,
			base.Name,
		)
	}
	if err != nil {
		return err
	}
	if older.ID > target.ID {
		return fault.Invalid.Errorf("snapshot %q was made after %q; name the older one as the base", base.Snap, target.Name)
	}
	return nil
}

// checkAlone refuses the snapshots of a group, which the program cannot
// address by a name.
func checkAlone(o handle.Object) error {
	if !o.IsMember() {
		return nil
	}
	return fault.Unsupported.Errorf(
		"snapshot %q of volume %q was made with a group, and the program rbd cannot say what is in one of those; make one of the volume alone",
		o.Snap,
		o.Name,
	)
}

// visitAll sorts first: the objects of an image with stripes are not in the
// order of its bytes.
func visitAll(parts []part, visit func(backend.Extent) error) error {
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.Offset, b.Offset) })
	for _, one := range parts {
		if err := visit(backend.Extent(one.Extent)); err != nil {
			return err
		}
	}
	return nil
}
