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

// mostPages is the maximum number of Leases, called pages, on which an older version kept the
// journal. The first page has their number. A new leader takes all of them over, writes their
// entries into the first one, and deletes the others.
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

// foldIn writes the entries of the pages into the first one, whose number of pages is then gone,
// and deletes the others. If deletion is forbidden, they are left and not read any more.
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

// staleness returns which entries of a Lease are stale. An older version kept the uids of stale
// entries, after the time of its last write, in an annotation, and left the Lease without a time.
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
