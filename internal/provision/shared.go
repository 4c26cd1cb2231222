package provision

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provision "github.com/purser-csi/purser/internal/provision/rules"
	source "github.com/purser-csi/purser/internal/sources/rules"
)

// sharedReads lets claims that wait for one object share its live reads: a user may create as many
// claims as they like with one snapshot that never becomes ready, or with one class that does not
// exist. Only what a claim is refused for is shared, so CreateVolume always follows a read of its own.
type sharedReads struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	changed func(source.Ref)
	sources map[sharedSource]*sharedState
	failed  map[sharedObject]failedRead
}

// sharedSource is a source, as claims of its own namespace or of other ones see it: those depend on
// ReferenceGrants.
type sharedSource struct {
	source.Ref
	fromElsewhere bool
}

// sharedState is a state of a source that a claim was refused for.
type sharedState struct {
	// turn has one element while a claim reads and the others wait for it. It is a lock that is waited
	// for no longer than a context lasts, since its holder waits for the API server.
	turn  chan struct{}
	state source.State
	at    time.Time
}

func (s *sharedState) lock(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *sharedState) unlock() { <-s.turn }

type sharedObject struct {
	types.NamespacedName
	kind string
}

// failedRead is NotFound or Forbidden.
type failedRead struct {
	err error
	at  time.Time
}

// manyShared is the number of entries above which outdated ones are removed.
const manyShared = 1024

func newSharedReads(clock clock.PassiveClock) *sharedReads {
	return &sharedReads{
		clock: clock, changed: func(source.Ref) {},
		sources: map[sharedSource]*sharedState{}, failed: map[sharedObject]failedRead{},
	}
}

var _ SharedReads = (*sharedReads)(nil)

// mayShare reports whether a claim has waited for long enough: a new claim has reads of its own, so
// it is not delayed by what others found before it was created.
func (r *sharedReads) mayShare(claim *corev1.PersistentVolumeClaim) bool {
	return r.clock.Since(claim.CreationTimestamp.Time) >= provision.SharedFor
}

func (r *sharedReads) isFresh(at time.Time) bool { return r.clock.Since(at) < provision.SharedFor }

// onChange sets what is called for a source that has changed since a claim was refused for it.
func (r *sharedReads) onChange(changed func(source.Ref)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = changed
}

// Source implements [SharedReads].
func (r *sharedReads) Source(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, ref source.Ref, read func() (source.State, error),
) (state source.State, isShared bool, err error) {
	r.mu.Lock()
	shared := r.sources[sharedKey(claim, ref)]
	r.mu.Unlock()
	if shared != nil {
		if err := shared.lock(ctx); err != nil {
			return source.State{}, false, fmt.Errorf("read %s: %w", ref, err)
		}
		if !r.isFresh(shared.at) {
			defer shared.unlock()
			state, err := r.refresh(ref, shared, read)
			return state, false, err
		}
		state := shared.state
		shared.unlock()
		if r.mayShare(claim) {
			return state, true, nil
		}
	}
	state, err = read() // those that can go on do not wait for each other
	return state, false, err
}

func sharedKey(claim *corev1.PersistentVolumeClaim, ref source.Ref) sharedSource {
	return sharedSource{ref, ref.Namespace != claim.Namespace}
}

// refresh reads the source for all claims that wait for it. The caller holds the lock.
func (r *sharedReads) refresh(
	ref source.Ref, shared *sharedState, read func() (source.State, error),
) (source.State, error) {
	state, err := read()
	if err != nil {
		return state, err
	}
	if versions(shared.state) != versions(state) {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		defer changed(ref)
	}
	shared.state, shared.at = state, r.clock.Now()
	return state, nil
}

// keep shares a state that a claim was refused for, which was read for it.
func (r *sharedReads) keep(claim *corev1.PersistentVolumeClaim, state source.State) {
	key := sharedKey(claim, state.Ref)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.sources) >= manyShared {
		for old, shared := range r.sources {
			select {
			case shared.turn <- struct{}{}:
				if !r.isFresh(shared.at) {
					delete(r.sources, old)
				}
				shared.unlock()
			default: // in use
			}
		}
	}
	r.sources[key] = &sharedState{turn: make(chan struct{}, 1), state: state, at: r.clock.Now()}
}

// versions identifies the versions of all objects of a source.
func versions(s source.State) (all [4]string) {
	if s.Claim != nil {
		all[0] = s.Claim.ResourceVersion
	}
	if s.Volume != nil {
		all[1] = s.Volume.ResourceVersion
	}
	if s.Snapshot != nil {
		all[2] = s.Snapshot.ResourceVersion
	}
	if s.Content != nil {
		all[3] = s.Content.ResourceVersion
	}
	return all
}

// Failures implements [SharedReads].
func (r *sharedReads) Failures(claim *corev1.PersistentVolumeClaim, from client.Reader) client.Reader {
	return failureReader{from, r, r.mayShare(claim)}
}

type failureReader struct {
	client.Reader
	shared   *sharedReads
	mayShare bool
}

// Get implements client.Reader.
func (r failureReader) Get(
	ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption,
) error {
	of := sharedObject{key, kindOf(into)}
	if of.kind == "" {
		return r.Reader.Get(ctx, key, into, options...)
	}
	if err := r.shared.failure(of); err != nil && r.mayShare {
		return err
	}
	err := r.Reader.Get(ctx, key, into, options...)
	r.shared.note(of, err)
	return err
}

// kindOf returns the kind of an object whose failed reads are shared; empty for others.
func kindOf(o client.Object) string {
	switch o := o.(type) {
	case *metav1.PartialObjectMetadata: // of a secret
		return o.Kind
	case *storagev1.VolumeAttributesClass:
		return "VolumeAttributesClass"
	case *corev1.Namespace:
		return "Namespace"
	}
	return ""
}

func (r *sharedReads) failure(of sharedObject) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if failed, ok := r.failed[of]; ok && r.isFresh(failed.at) {
		return failed.err
	}
	return nil
}

func (r *sharedReads) note(of sharedObject, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failed, of)
	if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return
	}
	if len(r.failed) >= manyShared {
		for old, failed := range r.failed {
			if !r.isFresh(failed.at) {
				delete(r.failed, old)
			}
		}
	}
	r.failed[of] = failedRead{err, r.clock.Now()}
}
