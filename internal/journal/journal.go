package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	intent "github.com/purser-csi/purser/internal/journal/rules"
)

// Config has the settings of a journal.
type Config struct {
	Live      client.Reader // the API server
	Writer    client.Writer
	Namespace string
	Name      string // of the Lease
	Holder    string // of this process; unique
	Node      string // of this process, if each node has a journal; else empty
	// CallTimeout bounds one call to the driver. A new holder waits that long before it undoes what
	// this one began.
	CallTimeout time.Duration
	// Needed says what to do without permission for Leases.
	Needed Need
	// ClaimExists reads live whether the claim of a stale entry exists; nil keeps stale entries.
	ClaimExists func(ctx context.Context, e intent.Entry) (bool, error)
	// PreviousCallsEnded says that the calls of every previous holder are known to have ended, so
	// that nothing has to wait for them.
	PreviousCallsEnded bool
	// SkipUnreadable goes on without a journal that cannot be read, and keeps its text in another
	// annotation of the Lease.
	SkipUnreadable bool
	Events         Events           // nil for none
	Now            func() time.Time // nil for the time of the machine
}

// Events emits events about the Lease.
type Events interface {
	Event(object runtime.Object, eventType, reason, message string)
}

// Need says whether provisioning depends on the journal.
type Need int

const (
	// Required creates no volume without a journal entry.
	Required Need = iota
	// BestEffort creates volumes without a journal, with a warning.
	BestEffort
)

const (
	// window is how long a write waits for further entries under load.
	window = 25 * time.Millisecond
	// idle is how long a resolved entry waits for another write before it is written alone.
	idle = 5 * time.Second
	// margin is added to the timeout of a previous holder's calls, for the time between a write of
	// the journal and the call.
	margin = time.Second
	// fresh is the maximum age of the last write at which a call begins without another write. The
	// rest of margin is for a process that is slow to begin the call.
	fresh = margin / 2
)

// ErrFenced says that another process has taken the journal over: this one is not the leader any
// more.
var ErrFenced = errors.New(
	"another process has taken over the journal of volume requests; let only one work at a time with --leader-election",
)

var errEnding = errors.New("the process is ending")

// Journal implements the Journal of internal/provision and manager.Runnable.
type Journal struct {
	Config
	opened chan struct{}

	mu       sync.Mutex
	book     *intent.Book
	calling  map[types.UID]bool // claims with a call whose run has not ended
	waiting  []waiter           // for the next write
	writing  []waiter           // for the one in flight
	busy     bool               // a write is in flight
	held     time.Time          // send time of the last successful write
	writeDue chan struct{}      // has one element if a write is needed at once
	ended    error              // why nothing is written any more; nil while the journal is served
	ending   bool               // ctx has ended
	// callsEnd is when the calls of previous leaders must have ended; zero when there are none.
	callsEnd time.Time
	cut      bool // a run ended after that without an outcome: the driver may still work on its call

	lease  *coordinationv1.Lease // as last written; only Start's goroutine touches it
	memory bool                  // without permission, and not Required
}

// waiter is a caller that waits for a write with the entry of a claim.
type waiter struct {
	claim   types.UID
	written chan error
}

// New returns a journal that is not taken over yet.
func New(cfg Config) *Journal {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Journal{
		Config: cfg, opened: make(chan struct{}), book: intent.NewBook(), calling: map[types.UID]bool{},
		writeDue: make(chan struct{}, 1),
	}
}

// Opened is closed when the journal has been taken over and may be used.
func (j *Journal) Opened() <-chan struct{} { return j.opened }

// Wait returns when the journal has been taken over.
func (j *Journal) Wait(ctx context.Context) error {
	select {
	case <-j.opened:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the journal of volume requests is not open: %w", ctx.Err())
	}
}

// Record returns when the entry is written to the API server.
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

// Discard records the handle of the claim's volume that is about to be deleted, and returns when it
// is written. For a claim without an entry there is nothing to record: no new leader repeats a
// request.
func (j *Journal) Discard(ctx context.Context, claim types.UID, handle string) error {
	written, err := j.announce(claim, handle)
	if written == nil {
		return err
	}
	return await(ctx, written, claim)
}

// announce returns nil without an error if the handle is written already.
func (j *Journal) announce(claim types.UID, handle string) (<-chan error, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.mayFinish(claim); err != nil {
		return nil, err
	}
	if !j.book.Discard(claim, handle) || j.memory {
		return nil, nil
	}
	return j.writtenOf(claim), nil
}

// add returns nil without an error if the entry is written already.
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

// writtenOf returns a channel that receives when the entry of a claim is written; nil if it is
// written already. The caller holds mu.
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

// nextWrite returns a channel that receives the result of the next write. The caller holds mu.
func (j *Journal) nextWrite(claim types.UID) <-chan error {
	w := waiter{claim, make(chan error, 1)}
	j.waiting = append(j.waiting, w)
	j.writeSoon()
	return w.written
}

// writeSoon causes a write.
func (j *Journal) writeSoon() {
	select {
	case j.writeDue <- struct{}{}:
	default:
	}
}

// anyWrite does so for the write in flight, or for the next one if there is none. The caller holds
// mu.
func (j *Journal) anyWrite(claim types.UID) <-chan error {
	if !j.busy {
		return j.nextWrite(claim)
	}
	w := waiter{claim, make(chan error, 1)}
	j.writing = append(j.writing, w)
	return w.written
}

// over returns why no call may begin any more; nil if it may. The caller holds mu.
func (j *Journal) over() error {
	if j.ended == nil && j.ending {
		return errEnding
	}
	return j.ended
}

// Hold returns a context for one call for a claim with an entry. The context is cancelled before a
// next holder of the journal could repeat or undo the call (H-1, H-6):
//  1. Hold makes sure that the last successful write of this process is recent; if not, it waits
//     for another write.
//  2. The context ends margin + CallTimeout after that write was sent.
//  3. The takeover write of a next holder comes after that write, and it waits as long from there.
//     This holds however late the call begins and however slow the response to the write was. So a
//     write that Hold waited for need only leave enough time for the call.
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

// hold returns when the call must end; zero for no bound. If the last write is older than most, it
// returns the channel of a write to wait for.
func (j *Journal) hold(claim types.UID, most time.Duration) (until time.Time, written <-chan error, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.mayFinish(claim); err != nil {
		return time.Time{}, nil, err
	}
	_, open := j.book.Get(claim)
	switch {
	case !open:
		return time.Time{}, nil, fmt.Errorf("the claim with uid %s is not in the journal", claim)
	case j.memory:
	case j.book.IsUnwritten(claim): // its write has failed
		return time.Time{}, j.nextWrite(claim), nil
	case j.Now().Sub(j.held) > most:
		return time.Time{}, j.anyWrite(claim), nil
	default:
		until = j.held.Add(margin + j.CallTimeout)
	}
	j.calling[claim] = true
	return until, nil, nil
}

// mayFinish returns an error while the process ends, unless a run of the claim has called the
// driver: it may finish. The caller holds mu.
func (j *Journal) mayFinish(claim types.UID) error {
	if err := j.over(); err != nil && (j.ended != nil || !j.calling[claim]) {
		return err
	}
	return nil
}

// Done says that the run which called the driver for a claim has ended, with or without an outcome.
func (j *Journal) Done(claim types.UID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, open := j.book.Get(claim); open && j.ending && j.calling[claim] {
		j.cut = true
	}
	delete(j.calling, claim)
}
