package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/intent"
	"github.com/purser-csi/purser/internal/core/names"
)

// An older version kept the journal on up to 16 Leases, its pages: the first named how many there
// are. A new leader takes over all of them, writes their entries into the first, and deletes the
// others.
const mostPages = 16

// takeOverPages takes over the further pages that the first one names.
func (j *Journal) takeOverPages(ctx context.Context, first left) (pages []left, err error) {
	text := first.lease.Annotations[names.AnnIntentPages]
	if text == "" {
		return nil, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n > mostPages {
		return nil, fmt.Errorf("lease %s/%s: annotation %s=%q is not a number of pages", j.Namespace, j.Name, names.AnnIntentPages, text)
	}
	for i := 1; i < n; i++ {
		page, err := j.takeOverAtLast(ctx, j.Name+"-"+strconv.Itoa(i))
		if err != nil {
			return nil, err
		}
		pages = append(pages, page)
	}
	return pages, nil
}

// foldIn writes the entries of the pages into the first one, which then names no pages, and deletes
// these. Deleting may be forbidden; a page that is left is not read any more.
func (j *Journal) foldIn(ctx context.Context, pages []left) error {
	if len(pages) == 0 {
		return nil
	}
	for {
		err := j.write(ctx, j.Holder)
		if err == nil {
			break
		}
		if ctx.Err() != nil || errors.Is(err, intent.ErrFull) {
			return fmt.Errorf("%d Leases of an older version: %w; run the older version until fewer requests are unresolved", 1+len(pages), err)
		}
		pause(ctx, again)
	}
	for _, page := range pages {
		if err := j.delete(ctx, page.lease); client.IgnoreNotFound(err) != nil {
			return nil //nolint:nilerr // it is not read any more
		}
	}
	return nil
}

func (j *Journal) delete(ctx context.Context, lease *coordinationv1.Lease) error {
	return j.Writer.Delete(ctx, lease, client.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion})
}

// staleness returns which entries of a Lease are stale. Beside new entries an older version named the
// stale ones in an annotation, with the time of its last write, and the Lease had no time then.
func staleness(lease *coordinationv1.Lease, now time.Time) func(intent.Entry) bool {
	if renewed := lease.Spec.RenewTime; renewed != nil {
		isStale := intent.IsStale(renewed.Time, now)
		return func(intent.Entry) bool { return isStale }
	}
	words := strings.Fields(lease.Annotations[names.AnnIntentsKept])
	if len(words) == 0 {
		return func(intent.Entry) bool { return true }
	}
	renewed, err := time.Parse(time.RFC3339Nano, words[0])
	isStale := err != nil || intent.IsStale(renewed, now)
	return func(e intent.Entry) bool { return isStale || slices.Contains(words[1:], string(e.UID)) }
}
