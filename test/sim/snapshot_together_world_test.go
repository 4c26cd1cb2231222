package sim

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/handoff"
	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	protection "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/internal/snapshot"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// togetherWorld is what a world has more where snapshot-controller, csi-snapshotter and the protection of
// claims are one process (FL-18, FL-19): the memory that they share, and the journal, whose Lease outlives
// the process.
type togetherWorld struct {
	w       *snapshotWorld
	durable map[types.UID]intent.Entry // the Lease

	// Of one process.
	stop     context.CancelFunc
	dead     *atomic.Bool // it has crashed
	ended    chan error
	shared   *handoff.Snapshots
	entries  map[types.UID]intent.Entry
	cached   *kube.Overlay
	isPlain  bool // this process is not told to work together: it does as upstream does
	takesOff bool // the user deletes the claim
}

// togetherMutant breaks one rule of one process.
type togetherMutant struct {
	unrecorded bool // no entry is written before the call
	resolves   bool // an entry is resolved when the call returns, before the status has its outcome
	forgets    bool // after a restart the protection does not look for snapshots that another process began
}

func (o *togetherWorld) deletesClaim() bool { return o != nil && o.takesOff }

func (o *togetherWorld) driver() string {
	if o == nil || o.isPlain {
		return ""
	}
	return "d"
}

func (o *togetherWorld) memory() *handoff.Snapshots {
	if o == nil || o.isPlain {
		return nil
	}
	return o.shared
}

func (o *togetherWorld) journal() snapshot.Journal {
	if o == nil || o.isPlain {
		return nil
	}
	return snapshotJournal{o}
}

// begin is a new process, which leads at once. The one before has crashed, or was ended.
func (o *togetherWorld) begin(ctx context.Context, cached *kube.Overlay) {
	if o == nil {
		return
	}
	if o.dead != nil {
		o.dead.Store(true)
	}
	o.cached, o.entries, o.shared = cached, maps.Clone(o.durable), handoff.NewSnapshots(o.w.clock)
	var inner context.Context
	inner, o.stop = context.WithCancel(ctx)
	o.ended = make(chan error, 1)
	shared, ended, dead := o.shared, o.ended, &atomic.Bool{}
	o.dead = dead
	protect := func(ctx context.Context, source handoff.SourceClaim) error {
		if dead.Load() {
			return nil
		}
		return o.protect(ctx, source)
	}
	go func() {
		ended <- handoff.ClaimProtection{Snapshots: shared, Bound: time.Hour, Protect: protect}.Start(inner)
	}()
	for {
		if _, leads := shared.Protects(); leads {
			return
		}
		runtime.Gosched()
	}
}

// protect adds the finalizer that stands for the snapshots of a claim.
func (o *togetherWorld) protect(ctx context.Context, source handoff.SourceClaim) error {
	claim := &corev1.PersistentVolumeClaim{}
	claim.Namespace, claim.Name = source.Namespace, source.Name
	return client.IgnoreNotFound(
		o.w.server.Client().Patch(ctx, claim, kube.AddFinalizer(source.UID, names.FinalizerSnapshotClaim)),
	)
}

// end ends the process as a signal does, and begins one that does not work together.
func (o *togetherWorld) end() {
	o.stop()
	if err := <-o.ended; err != nil {
		o.w.wrong = append(o.w.wrong, "the end: "+err.Error())
	}
	o.durable = maps.Clone(o.entries)
	if len(o.durable) > 0 {
		o.w.wrong = append(o.w.wrong, fmt.Sprintf("%d calls are left in the journal at the end", len(o.durable)))
	}
	o.isPlain = true
	o.w.restart()
}

// writeResolved writes the journal without what is resolved.
func (o *togetherWorld) writeResolved() {
	if o == nil || o.isPlain || maps.EqualFunc(o.durable, o.entries, func(a, b intent.Entry) bool { return a.UID == b.UID }) {
		return
	}
	_ = o.write()
}

// letClaimsGo is the protection of claims. It is the first of a process to act: after a restart no snapshot
// is in memory yet.
func (o *togetherWorld) letClaimsGo() {
	if o == nil {
		return
	}
	for _, claim := range apiserver.Objects(o.w.server, &corev1.PersistentVolumeClaim{}) {
		if claim.DeletionTimestamp != nil {
			o.letGo(claim)
		}
	}
}

// write is one write of the Lease.
func (o *togetherWorld) write() error {
	now := maps.Clone(o.entries)
	return o.w.step(func() error {
		o.durable = now
		return nil
	})
}

// letGo is the protection of claims for a terminating claim that no pod uses, of this process or, for one
// that does not work together, of kube-controller-manager.
func (o *togetherWorld) letGo(claim *corev1.PersistentVolumeClaim) {
	if !slices.Contains(claim.Finalizers, names.FinalizerPVCProtection) {
		return
	}
	s := protection.Claim{Object: claim, Answer: &protection.Answer{Version: "1"}}
	memory := o.memory()
	if memory != nil {
		var err error
		if s.Snapshots, err = snapshot.SourceUsers(o.w.t.Context(), o.cached, claim); err != nil {
			o.w.t.Fatal(err)
		}
		if o.w.mutant.together.forgets {
			s.Snapshots = nil
		}
		for _, vs := range memory.Holders(claim.UID) {
			s.Snapshots = append(s.Snapshots, vs.Name)
		}
	}
	if !strings.HasPrefix(show(protection.DecideClaim(s, o.w.clock.Now())), "drop") || !memory.LetGo(claim.UID) {
		return
	}
	_ = o.w.step(func() error {
		return client.IgnoreNotFound(o.w.server.Client().Patch(
			o.w.t.Context(), claim.DeepCopy(), kube.DropFinalizer(claim, names.FinalizerPVCProtection)))
	})
}

// show tells a verdict that lets the claim go from others.
func show(v protection.Verdict) string {
	if v.Because().Reason == "ClaimUnprotected" {
		return "drop"
	}
	return "wait"
}

// checkSource holds that the source of a snapshot exists while the driver is called for it.
func (o *togetherWorld) checkSource(name string) {
	if o == nil || o.isPlain {
		return
	}
	for _, vs := range apiserver.Objects(o.w.server, &snapshotv1.VolumeSnapshot{}) {
		if name != "snapshot-"+string(vs.UID) {
			continue
		}
		if len(apiserver.Objects(o.w.server, &corev1.PersistentVolumeClaim{})) == 0 {
			o.w.wrong = append(o.w.wrong, "CreateSnapshot is called for "+vs.Name+", and its claim is gone")
		}
	}
}

// snapshotJournal is a journal whose Lease is written at once for a new entry, and with the next write for a
// resolved one.
type snapshotJournal struct{ *togetherWorld }

func (j snapshotJournal) Wait(context.Context) error { return nil }

func (j snapshotJournal) Record(_ context.Context, e intent.Entry) error {
	if j.w.mutant.together.unrecorded {
		return nil
	}
	j.entries[e.UID] = e
	return j.write()
}

func (j snapshotJournal) Hold(ctx context.Context, content types.UID) (context.Context, context.CancelFunc, error) {
	bounded, cancel := context.WithCancel(ctx)
	if !j.w.mutant.together.resolves {
		return bounded, cancel, nil
	}
	return bounded, func() {
		delete(j.entries, content)
		_ = j.write()
		cancel()
	}, nil
}

func (j snapshotJournal) Resolve(_ context.Context, content types.UID) error {
	delete(j.entries, content)
	return nil
}

func (j snapshotJournal) Done(types.UID) {}

func (j snapshotJournal) Pending(content types.UID) (intent.Entry, bool) {
	e, ok := j.entries[content]
	return e, ok
}

func (j snapshotJournal) Entries() []intent.Entry { return slices.Collect(maps.Values(j.entries)) }
