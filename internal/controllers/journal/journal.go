package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/intent"
)

// Config is what a journal needs.
type Config struct {
	Live      client.Reader // answers from the API server
	Writer    client.Writer
	Namespace string
	Name      string // of the Lease
	Holder    string // of this process; no two processes may have the same
	Node      string // of this process, where each node has a journal; else empty
	// CallTimeout bounds one call to the driver. A new holder waits for as long before it repeats
	// what this one began.
	CallTimeout time.Duration
	// Needed says what to do without permission: stop, or go on with a record in memory.
	Needed Need
	// ClaimExists reports whether the API server has the very claim of an entry. It is asked about
	// stale entries; nil keeps those.
	ClaimExists func(ctx context.Context, e intent.Entry) (bool, error)
	// FormerEnded says that the calls of every former holder are known to have ended, so that
	// nothing need be waited for.
	FormerEnded bool
}

// Need says how much the record is wanted.
type Need int

const (
	// Required is not to create volumes without a record.
	Required Need = iota
	// BestEffort is to create them with a warning.
	BestEffort
)

const (
	// window is how long a write waits for company under load.
	window = 25 * time.Millisecond
	// idle is how long a settlement waits for another write to ride on.
	idle = 5 * time.Second
	// margin is added to the time that calls of a former holder may take, for what lies between a
	// write of the record and a call.
	margin = time.Second
	// fresh is how old the last write may be when a call that rests on it begins without
	// another one. The rest of margin is for a process that is slow to begin it.
	fresh = margin / 2
)

// ErrFenced says that another process has taken the journal over: this one is no longer the leader.
var ErrFenced = errors.New(
	"another process has taken over the journal of volume requests; let only one work at a time with --leader-election",
)

var errEnding = errors.New("the process is ending")

// Journal is the journal. It implements the Journal of controllers/provision and a runnable of the
// manager.
type Journal struct {
	Config
	opened chan struct{}

	mu      sync.Mutex
	book    *intent.Book
	calling map[types.UID]bool // claims with a call whose run has not ended
	waiting []waiter           // for the next write
	writing []waiter           // for the one in flight
	busy    bool               // a write is in flight
	held    time.Time          // when the last write was sent that the API server took from us
	wake    chan struct{}      // has one element when there is something to write at once
	ended   error              // why nothing is written any more
	ending  bool               // ctx has ended
	// callsEnd is when the calls of previous leaders must have ended; zero when there are none.
	callsEnd time.Time
	cut      bool // a run ended since then without an outcome: its call may go on in the driver

	lease  *coordinationv1.Lease // as last written; only Start's goroutine touches it
	memory bool                  // no permission, and none needed
}

// waiter waits for a write that has the entry of a claim.
type waiter struct {
	claim   types.UID
	written chan error
}

// New returns a journal that is not open yet.
func New(cfg Config) *Journal {
	return &Journal{
		Config: cfg, opened: make(chan struct{}), book: intent.NewBook(), calling: map[types.UID]bool{},
		wake: make(chan struct{}, 1),
	}
}

// Opened is closed when the journal has been taken over and may be used.
func (j *Journal) Opened() <-chan struct{} { return j.opened }

// Wait returns when the record may be used.
func (j *Journal) Wait(ctx context.Context) error {
	select {
	case <-j.opened:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the journal of volume requests is not open: %w", ctx.Err())
	}
}

// Record returns when the entry stands in the API server.
func (j *Journal) Record(ctx context.Context, e intent.Entry) error {
	written, err := j.add(e)
	if written == nil {
		return err
	}
	return await(ctx, written, e.UID)
}

func await(ctx context.Context, written <-chan error, claim types.UID) error {
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return fmt.Errorf("record the request of the claim with uid %s: %w", claim, ctx.Err())
	}
}

// Discard records that a volume of the claim is about to be deleted, and returns when that is
// written. A claim without an entry has nothing that a new leader would repeat.
func (j *Journal) Discard(ctx context.Context, claim types.UID) error {
	written, err := j.announce(claim)
	if written == nil {
		return err
	}
	return await(ctx, written, claim)
}

// announce returns nil without an error when the journal says so already.
func (j *Journal) announce(claim types.UID) (<-chan error, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.over(); err != nil {
		return nil, err
	}
	if !j.book.Discard(claim) || j.memory {
		return nil, nil
	}
	return j.writtenOf(claim), nil
}

// add returns nil without an error when the entry stands there already.
func (j *Journal) add(e intent.Entry) (<-chan error, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.over(); err != nil {
		return nil, err
	}
	if err := j.book.Add(e); err != nil {
		return nil, err
	}
	if j.memory {
		return nil, nil
	}
	return j.writtenOf(e.UID), nil
}

// writtenOf returns what tells that the entry of a claim is written; nil if it stands there already.
// The caller holds mu.
func (j *Journal) writtenOf(claim types.UID) <-chan error {
	switch {
	case j.book.IsUnwritten(claim):
		return j.nextWrite(claim)
	case j.busy && j.book.IsTaken(claim):
		return j.anyWrite(claim)
	default:
		return nil
	}
}

// nextWrite waits for the next write. The caller holds mu.
func (j *Journal) nextWrite(claim types.UID) <-chan error {
	w := waiter{claim, make(chan error, 1)}
	j.waiting = append(j.waiting, w)
	select {
	case j.wake <- struct{}{}:
	default:
	}
	return w.written
}

// anyWrite waits for the write in flight, or for the next one when there is none. The caller holds
// mu.
func (j *Journal) anyWrite(claim types.UID) <-chan error {
	if !j.busy {
		return j.nextWrite(claim)
	}
	w := waiter{claim, make(chan error, 1)}
	j.writing = append(j.writing, w)
	return w.written
}

// over is why no call may begin any more; nil while some may. The caller holds mu.
func (j *Journal) over() error {
	if j.ended == nil && j.ending {
		return errEnding
	}
	return j.ended
}

// Hold is asked right before a call for a claim that is on record, be it the first call or a
// repeated one. It returns when the API server has lately taken a write of the record from this
// process, which may take another write. The context that it gives ends before a next holder of the
// journal repeats or undoes the call: it ends a margin and the time of a call after that write was
// sent. The next holder, whose own write came after it, begins no earlier than as long
// after that. This holds however late the call begins and however slow the answer to the write was,
// so a write that was waited for need only leave enough of the time (H-1, H-6).
func (j *Journal) Hold(ctx context.Context, claim types.UID) (context.Context, context.CancelFunc, error) {
	for most := fresh; ; most = margin + j.CallTimeout/2 {
		until, written, err := j.hold(claim, most)
		if err == nil && written != nil {
			err = await(ctx, written, claim)
		}
		switch {
		case err != nil:
			return nil, nil, err
		case written != nil:
			continue
		case until.IsZero():
			bounded, cancel := context.WithCancel(ctx)
			return bounded, cancel, nil
		}
		bounded, cancel := context.WithDeadline(ctx, until)
		return bounded, cancel, nil
	}
}

// hold says until when a call may go on, the zero time for no bound; or what to wait for when the
// last write is older than it may be.
func (j *Journal) hold(claim types.UID, most time.Duration) (until time.Time, written <-chan error, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.over(); err != nil && (j.ended != nil || !j.calling[claim]) { // a run that has called may go on to its end
		return time.Time{}, nil, err
	}
	_, open := j.book.Get(claim)
	switch {
	case !open:
		return time.Time{}, nil, fmt.Errorf("the claim with uid %s is not in the journal", claim)
	case j.memory:
	case j.book.IsUnwritten(claim): // a write of it has failed since
		return time.Time{}, j.nextWrite(claim), nil
	case time.Since(j.held) > most:
		return time.Time{}, j.anyWrite(claim), nil
	default:
		until = j.held.Add(margin + j.CallTimeout)
	}
	j.calling[claim] = true
	return until, nil, nil
}

// Done says that the run which called for a claim has ended, whatever is known of the outcome.
func (j *Journal) Done(claim types.UID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, open := j.book.Get(claim); open && j.ending && j.calling[claim] {
		j.cut = true
	}
	delete(j.calling, claim)
}
