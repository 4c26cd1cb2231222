package health

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/csispec"
	health "github.com/purser-csi/purser/internal/health/rules"
)

// The RPCs, as upstream's metrics name them (HM-48).
const (
	methodList = "ControllerListVolumeHealth"
	methodGet  = "ControllerGetVolumeHealth"
)

// entriesOfPage bounds a page, so that thousands of volumes with problems do not exceed the size of a
// message.
const entriesOfPage = 500

// mostListed bounds the volumes with problems of a list, in case a driver never returns the last page.
const mostListed = 200_000

// wholeList is the method in the log of a list whose pages succeed, and that exceeds a bound.
const wholeList = methodList + ", all pages"

// check calls the driver for one volume. The call takes no lock: it must not delay one that changes the
// volume.
func (c *Controller) check(ctx context.Context, s health.Snapshot) next {
	var answer *csi.ControllerGetVolumeHealthResponse
	failure := c.do(ctx, methodGet, func(ctx context.Context) (err error) {
		answer, err = c.CSI.ControllerGetVolumeHealth(ctx, &csi.ControllerGetVolumeHealthRequest{
			VolumeId: s.Volume.Spec.CSI.VolumeHandle,
		})
		return err
	})
	if failure == nil {
		return c.answered(ctx, s, health.ReportOf(answer.GetVolumeHealth()))
	}
	now := c.Clock.Now()
	s.Known = c.memory.change(s.Volume.UID, func(k *health.Known) { k.Tried = now })
	return health.AfterFailure(s, failure.Words(), failure.CodeName(), now)
}

// do makes one call, measures it, and logs when calls of the RPC begin to fail, and when they succeed
// again: of a driver that is down, each call fails.
func (c *Controller) do(ctx context.Context, method string, send func(context.Context) error) *csirpc.Failure {
	began := c.Clock.Now()
	failure := c.caller.Do(ctx, csirpc.Call{
		Method: method, Timeout: c.Timeout,
		Send: func(ctx context.Context, _ map[string]string) error { return send(ctx) },
	})
	c.Measures.Probed(method, failure != nil, c.Clock.Since(began))
	c.note(ctx, method, failure)
	return failure
}

// note logs a failure, or the end of failures, unless the last one of the method was alike.
func (c *Controller) note(ctx context.Context, method string, failure *csirpc.Failure) {
	log := logr.FromContextOrDiscard(ctx)
	switch isNews := c.memory.setFailing(method, failure != nil); {
	case isNews && failure != nil:
		log.Info("the driver does not say which volumes have problems", "method", method, "problem", failure.Words())
	case isNews:
		log.Info("the driver says again which volumes have problems", "method", method)
	}
}

// lister lists the volumes with problems, on the leader only.
type lister struct{ *Controller }

// Start implements manager.Runnable.
func (l lister) Start(ctx context.Context) error {
	for {
		l.listOnce(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-l.Clock.After(l.ListEvery):
		}
	}
}

// listOnce reads one complete list. A page that fails ends it, and nothing changes (HM-42); so does a list
// that exceeds a bound. A driver that does not know the token of a page any more is asked for the first
// page again, once (HM-20).
func (c *Controller) listOnce(ctx context.Context) {
	reports, failure := c.pages(ctx)
	if failure != nil && failure.Answered(codes.Aborted) {
		reports, failure = c.pages(ctx)
	}
	if failure == nil {
		c.memory.setList(c.Clock.Now(), reports, c.ListEvery)
	}
}

// pages returns the reports of all pages by handle. A volume may be on two pages, since pages need not be
// consistent; the later one is newer.
func (c *Controller) pages(ctx context.Context) (map[string]health.Report, *csirpc.Failure) {
	reports, token, seen := map[string]health.Report{}, "", map[[sha256.Size]byte]bool{}
	for range csirpc.MostPages {
		var page *csi.ControllerListVolumeHealthResponse
		failure := c.do(ctx, methodList, func(ctx context.Context) (err error) {
			page, err = c.CSI.ControllerListVolumeHealth(ctx, &csi.ControllerListVolumeHealthRequest{
				MaxEntries: entriesOfPage, StartingToken: token,
			})
			return err
		})
		if failure != nil {
			return nil, failure
		}
		for _, entry := range page.GetEntries() {
			if len(entry.GetHealthStatuses()) > 0 {
				reports[entry.GetVolumeId()] = health.ReportOf(entry)
			}
		}
		if len(reports) > mostListed {
			return nil, c.exceeds(ctx, fmt.Sprintf("more than %d volumes", mostListed))
		}
		if token = page.GetNextToken(); token == "" {
			c.note(ctx, wholeList, nil)
			return reports, nil
		}
		sum := sha256.Sum256([]byte(token)) // a token has any length
		if seen[sum] {
			return nil, c.exceeds(ctx, "a page has the next_token of an earlier one")
		}
		seen[sum] = true
	}
	return nil, c.exceeds(ctx, fmt.Sprintf("no end after %d pages", csirpc.MostPages))
}

// exceeds returns the failure of a list that exceeds a bound, and logs it once.
func (c *Controller) exceeds(ctx context.Context, why string) *csirpc.Failure {
	failure := &csirpc.Failure{Failure: csispec.Failure{Message: why}}
	c.note(ctx, wholeList, failure)
	return failure
}
