package sources

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/handoff"
	source "github.com/purser-csi/purser/internal/sources/rules"
)

// local has the calls that use a VolumeSnapshot without a finalizer: the snapshot-controller in the same
// process, under the same lease, asks here before it deletes the content (FL-21). One lock decides: a
// VolumeSnapshot that was released begins no call, and one with a call is not released. It is safe for
// concurrent use.
type local struct {
	mu      sync.Mutex
	since   time.Time                          // when this process began to lead
	calls   map[types.UID]types.NamespacedName // by the uid of the claim
	gone    map[types.NamespacedName]types.UID // released, so that no call begins
	waiting map[types.NamespacedName]bool      // refused, since a request of the journal uses them
}

var _ handoff.Restores = (*Controller)(nil)

var errLetGo = errors.New("it is being deleted")

// leadsAlone is for how long this process must have led until its cache has all that an earlier leader
// deleted.
const leadsAlone = time.Minute

func (l *local) lead(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = now
}

// leads returns since when this process leads.
func (l *local) leads() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since
}

// begin counts a claim as a user, unless the VolumeSnapshot was released.
func (l *local) begin(vs types.NamespacedName, uid, claim types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone[vs] == uid {
		return false
	}
	if l.calls == nil {
		l.calls = map[types.UID]types.NamespacedName{}
	}
	l.calls[claim] = vs
	return true
}

// end returns the VolumeSnapshot that a claim used.
func (l *local) end(claim types.UID) (types.NamespacedName, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	vs, ok := l.calls[claim]
	delete(l.calls, claim)
	return vs, ok
}

func (l *local) count(vs types.NamespacedName, isSnapshot bool) (calls int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, used := range l.calls {
		if isSnapshot && used == vs {
			calls++
		}
	}
	return calls
}

// letGo reports whether no call uses a VolumeSnapshot, so that none begins any more.
func (l *local) letGo(vs types.NamespacedName, uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, used := range l.calls {
		if used == vs {
			return false
		}
	}
	if l.gone == nil {
		l.gone = map[types.NamespacedName]types.UID{}
	}
	l.gone[vs] = uid
	return true
}

// wait notes that a VolumeSnapshot waits for a request of the journal.
func (l *local) wait(vs types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		l.waiting = map[types.NamespacedName]bool{}
	}
	l.waiting[vs] = true
}

func (l *local) takeWaiting() (all []types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for vs := range l.waiting {
		all = append(all, vs)
	}
	l.waiting = nil
	return all
}

// keep undoes letGo.
func (l *local) keep(vs types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.gone, vs)
}

// forget drops what is known of a VolumeSnapshot, but for its calls.
func (l *local) forget(vs types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.gone, vs)
	delete(l.waiting, vs)
}

// isLocal reports whether a source needs no finalizer: a VolumeSnapshot of this driver whose content the
// snapshot-controller in this process deletes. The members of a group are deleted with their group.
func (c *Controller) isLocal(s source.State) bool {
	if c.Together == nil || !s.Ref.IsSnapshot() || s.Snapshot == nil || s.Content == nil {
		return false
	}
	return s.Content.Spec.Driver == c.Driver && !source.IsProtected(s.Snapshot, s.Ref) &&
		!isMember(s.Snapshot, s.Content)
}

func isMember(vs *snapshotv1.VolumeSnapshot, content *snapshotv1.VolumeSnapshotContent) bool {
	return vs.Status != nil && vs.Status.VolumeGroupSnapshotName != nil ||
		content.Status != nil && content.Status.VolumeGroupSnapshotHandle != nil
}

// protectLocally counts a claim as a user until [Controller.Done]. At first the cache may have a
// VolumeSnapshot whose content an earlier leader deleted.
func (c *Controller) protectLocally(ctx context.Context, s source.State, claim types.UID) error {
	vs := s.Ref.NamespacedName
	err := errLetGo
	if c.local.begin(vs, s.Snapshot.UID, claim) {
		err = nil
		if since := c.local.leads(); since.IsZero() || c.Clock.Since(since) < leadsAlone {
			err = c.confirm(ctx, s)
		}
	}
	if err != nil {
		return fmt.Errorf("protect %s: %w", s.Ref, err)
	}
	return nil
}

// Users implements handoff.Restores. Calls are counted before the requests are read: an end of a call that
// leaves a request is seen by one of the two.
func (c *Controller) Users(
	ctx context.Context, vs types.NamespacedName, handle string,
) (users []string, err error) {
	if calls := c.local.count(vs, true); calls > 0 {
		users = append(users, fmt.Sprintf("%d calls in flight", calls))
	}
	requests, err := c.requestsOf(ctx, handle)
	if len(requests) > 0 {
		c.local.wait(vs)
	}
	return append(users, requests...), err
}

// requestsOf returns the unresolved requests of the journal for the snapshot with a handle.
func (c *Controller) requestsOf(ctx context.Context, handle string) (users []string, err error) {
	requests, err := c.Requests(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the unresolved requests: %w", err)
	}
	for _, r := range requests {
		if id := r.Content.GetSnapshot().GetSnapshotId(); id != "" && id == handle {
			users = append(users, fmt.Sprintf("the request for volume %s of claim %s", r.Volume, r.Claim))
		}
	}
	return users, nil
}

// LetGo implements handoff.Restores. The next leader repeats what it finds in the journal, for which the
// snapshot must be there: the journal is written without the requests that are resolved.
func (c *Controller) LetGo(
	ctx context.Context, vs types.NamespacedName, uid types.UID, handle string,
) (bool, error) {
	if !c.local.letGo(vs, uid) {
		return false, nil
	}
	requests, err := c.requestsOf(ctx, handle) // of a call that has ended since
	if err == nil && len(requests) == 0 {
		err = c.Flushed(ctx)
	}
	if err != nil || len(requests) > 0 {
		c.local.keep(vs)
		return false, err
	}
	return true, nil
}

// Forget implements handoff.Restores.
func (c *Controller) Forget(vs types.NamespacedName) { c.local.forget(vs) }
