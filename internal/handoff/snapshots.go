package handoff

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// SourceClaim is a claim that a snapshot is taken of.
type SourceClaim struct {
	types.NamespacedName
	UID types.UID
}

// Snapshots is what the roles of one process know of snapshots, in place of marks in the API server
// (FL-18, FL-19):
//
//   - which claims a snapshot is being taken of. The snapshot-controller holds a claim, and the
//     protection of claims does not remove the finalizer of a held one. Both decide under one lock:
//     a claim is held first, and then its finalizer stays, or its finalizer goes first, and then it
//     cannot be held.
//   - which contents are being deleted with their VolumeSnapshot. The snapshot-controller says so
//     before it deletes a content, and the csi-snapshotter reads it.
//
// All of it is lost with the process. The next one protects again, before it lets a claim go, what the
// API objects show to be in work. It is safe for concurrent use.
type Snapshots struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	since    time.Time // when the protection of claims began to lead in this process; zero while it does not
	tell     func(SourceClaim)
	held     map[types.NamespacedName]heldClaim // by VolumeSnapshot
	released map[types.UID]bool                 // claims whose finalizer was, or is being, removed
	deleting map[types.UID]bool                 // contents
	restores Restores
	restored func(vs types.NamespacedName)
}

// heldClaim is the claim of one VolumeSnapshot.
type heldClaim struct {
	snapshot types.UID
	claim    SourceClaim
}

// NewSnapshots returns the memory of a new process.
func NewSnapshots(c clock.PassiveClock) *Snapshots {
	return &Snapshots{
		clock: c, held: map[types.NamespacedName]heldClaim{}, released: map[types.UID]bool{},
		deleting: map[types.UID]bool{},
	}
}

// Restores is the provisioner in the same process, as the snapshot-controller sees it.
type Restores interface {
	// Users returns the calls of the provisioner that use a VolumeSnapshot, and its unresolved requests with
	// the handle of the snapshot.
	Users(ctx context.Context, vs types.NamespacedName, handle string) (users []string, err error)
	// LetGo reports whether there is no such call or request. Then none begins any more.
	LetGo(ctx context.Context, vs types.NamespacedName, uid types.UID, handle string) (bool, error)
	// Forget drops what is known of a VolumeSnapshot that does not exist any more.
	Forget(vs types.NamespacedName)
}

// SetRestores registers the provisioner.
func (s *Snapshots) SetRestores(r Restores) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restores = r
}

// Restores returns the provisioner; nil before it is registered.
func (s *Snapshots) Restores() Restores {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restores
}

// OnRestored calls tell with each VolumeSnapshot that a call of the provisioner uses no longer. tell must
// not block.
func (s *Snapshots) OnRestored(tell func(vs types.NamespacedName)) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restored = tell
}

// Restored says that a call of the provisioner uses a VolumeSnapshot no longer.
func (s *Snapshots) Restored(vs types.NamespacedName) {
	s.mu.Lock()
	tell := s.restored
	s.mu.Unlock()
	if tell != nil {
		tell(vs)
	}
}

// OnRelease calls tell with each claim that is held no longer. tell must not block.
func (s *Snapshots) OnRelease(tell func(SourceClaim)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell = tell
}

// Protects returns for how long the protection of claims has led in this process; ok is false while it
// does not, and then no claim can be held.
func (s *Snapshots) Protects() (since time.Duration, ok bool) {
	if s == nil {
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		return 0, false
	}
	return s.clock.Since(s.since), true
}

// Hold keeps the claim for a VolumeSnapshot. It reports false if the protection of claims does not lead
// in this process, or has let the claim go.
func (s *Snapshots) Hold(vs types.NamespacedName, uid types.UID, claim SourceClaim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() || s.released[claim.UID] {
		return false
	}
	s.held[vs] = heldClaim{uid, claim}
	return true
}

// IsHeld reports whether the claim of a VolumeSnapshot is held.
func (s *Snapshots) IsHeld(vs types.NamespacedName, uid types.UID) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.held[vs]
	return ok && one.snapshot == uid && !s.since.IsZero()
}

// Release ends what [Snapshots.Hold] began.
func (s *Snapshots) Release(vs types.NamespacedName) {
	if s == nil {
		return
	}
	s.mu.Lock()
	one, ok := s.held[vs]
	delete(s.held, vs)
	tell := s.tell
	s.mu.Unlock()
	if ok && tell != nil {
		tell(one.claim)
	}
}

// Holders returns the VolumeSnapshots for which a claim is held.
func (s *Snapshots) Holders(claim types.UID) (all []types.NamespacedName) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for vs, one := range s.held {
		if one.claim.UID == claim {
			all = append(all, vs)
		}
	}
	return all
}

// LetGo reports whether the finalizer of a claim may be removed. If it may, the claim is not held any
// more, whatever becomes of the write.
func (s *Snapshots) LetGo(claim types.UID) bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.held {
		if one.claim.UID == claim {
			return false
		}
	}
	s.released[claim] = true
	return true
}

// ClaimGone drops what is known of a claim that does not exist any more.
func (s *Snapshots) ClaimGone(claim types.UID) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.released, claim)
}

// SetDeleting says whether a content is being deleted with its VolumeSnapshot.
func (s *Snapshots) SetDeleting(content types.UID, is bool) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if is {
		s.deleting[content] = true
	} else {
		delete(s.deleting, content)
	}
}

// IsDeleting reports what [Snapshots.SetDeleting] said.
func (s *Snapshots) IsDeleting(content types.UID) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deleting[content]
}

// ClaimProtection registers the protection of claims while it leads. It is a runnable of the manager of
// the controllers.
type ClaimProtection struct {
	Snapshots *Snapshots
	// Protect adds to a claim the finalizer that stands for its snapshots.
	Protect func(ctx context.Context, claim SourceClaim) error
	// Bound is how long the finalizers of all held claims may take.
	Bound time.Duration
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (ClaimProtection) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable. At the end each held claim gets the finalizer, before the lease is
// released: the next leader does not know the memory of this process.
func (p ClaimProtection) Start(ctx context.Context) error {
	p.Snapshots.setLeading(true)
	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.Bound)
	defer cancel()
	var last error
	for _, claim := range p.Snapshots.setLeading(false) {
		if err := p.Protect(ctx, claim); err != nil {
			last = err
		}
	}
	return last
}

// setLeading returns the claims that were held.
func (s *Snapshots) setLeading(leads bool) (held []SourceClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = time.Time{}
	if leads {
		s.since = s.clock.Now()
	}
	once := map[types.UID]bool{}
	for _, one := range s.held {
		if !once[one.claim.UID] {
			once[one.claim.UID] = true
			held = append(held, one.claim)
		}
	}
	return held
}
