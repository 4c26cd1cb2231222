package driver

import (
	"github.com/purser-csi/purser/internal/driver/backend"
)

// exclusively runs an operation while it holds its claims. A busy object is an error at once. The
// caller retries anyway, and calls that queued behind one that hangs would exhaust the driver.
func exclusively[T any](
	running *InFlight,
	operation string,
	claims []Claim,
	run func() (T, error),
) (T, error) {
	release, err := running.Start(operation, claims...)
	if err != nil {
		var none T
		return none, err
	}
	defer release()
	return run()
}

// The objects of claims. Volumes go by their id and targets by their path;
// snapshots and groups get a word in front, since they may have the id of a
// volume.

func aloneAll(objects ...string) (claims []Claim) {
	for _, object := range objects {
		claims = append(claims, Alone(object))
	}
	return claims
}

func snapshotObject(id string) string { return "snapshot " + id }

func groupObject(id string) string { return "group " + id }

// sourceClaim returns the claims on the source of a new volume. A snapshot never changes, so many
// volumes can be created from it at once. A volume changes, and only one call can freeze its
// filesystem.
func sourceClaim(source backend.Source) []Claim {
	switch {
	case source.Snapshot != backend.ID{}:
		return []Claim{Shared(snapshotObject(source.Snapshot.String()))}
	case source.Volume != backend.ID{}:
		return []Claim{Alone(source.Volume.String())}
	default:
		return nil
	}
}
