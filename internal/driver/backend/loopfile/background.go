package loopfile

import (
	"context"
	"fmt"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/background"
)

// inBackground does what can take longer than a caller waits: an mkfs, an e2fsck
// or a copy of every byte. It goes on then, and a repeated call gets the
// result.
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
	return background.Do(ctx, b.tasks, e, work)
}

func taskOf(what string, id backend.ID) background.Task {
	return background.Task{Key: what + " " + id.String(), Doing: fmt.Sprintf("%s %q", what, id)}
}

const (
	creating     = "create volume"
	staging      = "stage volume"
	snapshotting = "create snapshot"
	grouping     = "create group snapshot"
)
