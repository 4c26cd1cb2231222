package driver

import (
	"slices"
	"strings"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// page is the part of a list that was asked for. The token names the last
// volume of the page before, so it stays good when that volume is deleted
// meanwhile, and no state is kept between two calls.
type page struct {
	after string
	size  int
}

const (
	// tokenPrefix keeps a token apart from an id: ids have no colon.
	tokenPrefix = "after:"
	// maxPage keeps an answer well below the 4 MiB that a gRPC client
	// accepts by default.
	maxPage = 10_000
)

// parsePage refuses tokens that this driver did not give out ("ListVolumes
// Errors": ABORTED).
func parsePage(token string, maxEntries int32) (page, error) {
	if maxEntries < 0 {
		return page{}, fault.Invalid.Errorf("max_entries %d: must not be negative", maxEntries)
	}
	size := int(maxEntries)
	if size == 0 || size > maxPage {
		size = maxPage
	}
	if token == "" {
		return page{size: size}, nil
	}
	text, isToken := strings.CutPrefix(token, tokenPrefix)
	id, err := backend.ParseID(text)
	if !isToken || err != nil {
		return page{}, fault.BadToken.Errorf(
			"starting_token %.128q: not a token of this driver; start again without one",
			token,
		)
	}
	return page{after: id.String(), size: size}, nil
}

// rest gives the ids behind the page before. All ids must be in ascending
// order.
func (p page) rest(ids []backend.ID) []backend.ID {
	start, found := slices.BinarySearchFunc(ids, p.after, func(id backend.ID, after string) int {
		return strings.Compare(id.String(), after)
	})
	if found {
		start++
	}
	return ids[start:]
}

// cut takes the page out of all ids. The token for the next page is empty at
// the end.
func (p page) cut(ids []backend.ID) (part []backend.ID, next string) {
	rest := p.rest(ids)
	if len(rest) <= p.size {
		return rest, ""
	}
	part = rest[:p.size]
	return part, tokenAfter(part[len(part)-1])
}

func tokenAfter(last backend.ID) string { return tokenPrefix + last.String() }
