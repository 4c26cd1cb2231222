package loopfile

import (
	"context"
	"fmt"

	"github.com/purser-csi/purser/internal/driver/backend"
)

// inBackground runs an operation that can take longer than its caller waits: an mkfs, an e2fsck or
// a full copy. It goes on after the caller's deadline, and a repeated call gets the result.
func inBackground[T any](
	ctx context.Context,
	b *Backend,
	what string,
	id backend.ID,
	request any,
	work func(context.Context) (T, error),
) (T, error) {
	e := taskOf(what, id)
	e.Request = fmt.Sprintf("%+v", request)
	return Do(ctx, b.tasks, e, work)
}

func taskOf(what string, id backend.ID) Task {
	return Task{Key: what + " " + id.String(), Doing: fmt.Sprintf("%s %q", what, id)}
}

const (
	creating     = "create volume"
	staging      = "stage volume"
	snapshotting = "create snapshot"
	grouping     = "create group snapshot"
)
