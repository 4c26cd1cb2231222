package fault

import (
	"errors"
	"fmt"
)

// Kind is what an error means to the caller.
type Kind int

// The kinds, named after the conditions in the CSI spec's error tables.
const (
	// Internal is everything that no other kind describes.
	Internal Kind = iota
	// Invalid is a field of the request that is missing, malformed or not
	// supported ("Error Scheme").
	Invalid
	// NotFound is an object that does not exist.
	NotFound
	// Incompatible is an object that exists with other properties than the
	// ones asked for.
	Incompatible
	// InUse is an object that must be released first.
	InUse
	// Unsupported is a capability that this volume does not have
	// ("NodePublishVolume Errors", exceeds capabilities).
	Unsupported
	// Unready is a dependency of the plugin that is missing ("Probe Errors").
	Unready
	// OutOfRange is a size that cannot be provided.
	OutOfRange
	// Exhausted is a pool without room.
	Exhausted
	// Busy is an object on which another operation runs ("Error Scheme",
	// operation pending for volume).
	Busy
	// BadToken is a page token that this driver did not give out
	// ("ListVolumes Errors").
	BadToken
)

type fault struct {
	kind Kind
	err  error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// Errorf makes an error of this kind. The text follows fmt.Errorf; a wrapped
// error stays reachable, but this kind counts.
func (k Kind) Errorf(format string, args ...any) error {
	return &fault{kind: k, err: fmt.Errorf(format, args...)}
}

// KindOf says which kind an error is of: that of the outermost fault in its
// chain.
func KindOf(err error) Kind {
	if f, ok := errors.AsType[*fault](err); ok {
		return f.kind
	}
	return Internal
}

// Is says whether err is of kind k. No error is of no kind.
func (k Kind) Is(err error) bool {
	return err != nil && KindOf(err) == k
}
