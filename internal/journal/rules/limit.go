package intent

import (
	"errors"
	"fmt"
)

const (
	// MaxText is the size in bytes up to which a journal takes new entries: some 4,000 of them.
	MaxText = 200 << 10
	// mostText leaves room for requests that replace recorded ones. All annotations of an object
	// together may have 256 KiB.
	mostText = 250 << 10
	maxEntry = 32 << 10 // the maps of a request have at most 4 KiB each (CSI "Size Limits")
)

// ErrFull says that no new request may be sent before others are resolved.
var ErrFull = errors.New("the journal of CreateVolume requests is full")

func (b *Book) errFull() error {
	return fmt.Errorf(
		"%w: %d requests are not resolved and take %d bytes of %d", ErrFull, len(b.entries), b.size, b.mayTake(),
	)
}
