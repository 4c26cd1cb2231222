package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
)

const (
	// attempts is the maximum number of writes of the Lease in a row that conflict.
	attempts = 5
	// again is the delay between takeover attempts while the API server does not answer.
	again = time.Second
)

// open takes the journal over.
func (j *Journal) open(ctx context.Context) error {
	found, err := j.takeOverAtLast(ctx, j.Name)
	if (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)) && j.Needed == BestEffort {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.memory = true
		logr.FromContextOrDiscard(ctx).Info("volume requests are remembered in memory only: a volume that is being "+
			"created when this process is killed may be lost. Allow get, create and update of "+
			"leases.coordination.k8s.io in the namespace, or silence this with --intents=off",
			"namespace", j.Namespace, "problem", err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	// From here on no previous leader can begin another call, so its calls end within their
	// timeout.
	j.load(found, j.Now())
	j.setLease(found.lease)
	j.awaitSkipped(ctx, found)
	if n := j.Len(); n > 0 {
		logr.FromContextOrDiscard(ctx).Info("took over unresolved volume requests", "requests", n)
	}
	return nil
}

// load adds the entries of the previous leader, which can begin no call since the given time.
func (j *Journal) load(found left, since time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var due time.Time
	if found.callTimeout > 0 && !j.PreviousCallsEnded {
		due = since.Add(found.callTimeout)
	}
	if len(found.entries) > 0 {
		j.callsEnd = due
	}
	j.book.Load(found.entries, due)
}

// left is the content of a Lease at its takeover.
type left struct {
	lease       *coordinationv1.Lease
	entries     []intent.Entry
	callTimeout time.Duration // of calls of the previous leader; 0 if it released the Lease
	skipped     error         // why its text was set aside; nil if it was read
}

// takeOverAtLast retries until the API server answers: it often does not when leaders change, and a
// restart of this process would take longer.
func (j *Journal) takeOverAtLast(ctx context.Context, name string) (left, error) {
	for {
		found, err := j.takeOver(ctx, name)
		if err == nil || kube.IsRefusal(err) && !isOvertaken(err) || errors.Is(err, ErrUnreadable) || ctx.Err() != nil {
			return found, err
		}
		logr.FromContextOrDiscard(ctx).Info(
			"the journal of volume requests was not taken over yet", "problem", err.Error(),
		)
		pause(ctx, again)
	}
}

// isOvertaken reports whether another writer was first.
func isOvertaken(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// takeOver makes this process the holder of a Lease. The same write drops stale entries whose claim
// is gone: it renews the Lease, so that they do not look stale afterwards.
func (j *Journal) takeOver(ctx context.Context, name string) (found left, err error) {
	for attempt := 1; ; attempt++ {
		lease := &coordinationv1.Lease{}
		err = j.Live.Get(ctx, client.ObjectKey{Namespace: j.Namespace, Name: name}, lease)
		sent := j.Now()
		switch {
		case apierrors.IsNotFound(err):
			lease = j.newLease(name)
			j.sign(lease, j.Holder, 0)
			found, err = left{lease: lease}, j.Writer.Create(ctx, lease)
		case err == nil:
			if found, err = j.read(ctx, lease); err != nil {
				return left{}, err
			}
			sent = j.Now()
			j.sign(lease, j.Holder, found.callTimeout-margin)
			setRepeated(lease, found.repeated())
			err = j.Writer.Update(ctx, lease)
		}
		switch {
		case err == nil:
			j.took(sent)
			j.sayWhatIsSkipped(ctx, found)
			return found, nil
		case !isOvertaken(err) || attempt == attempts:
			return left{}, fmt.Errorf("take over lease %s/%s: %w", j.Namespace, name, err)
		}
	}
}

// read returns the entries of a Lease and removes from it those that are stale and without a claim.
func (j *Journal) read(ctx context.Context, lease *coordinationv1.Lease) (left, error) {
	found := left{lease: lease}
	var err error
	if found.skipped, err = j.setAside(lease); err != nil {
		return left{}, err
	}
	entries, err := intent.Decode(lease.Annotations[names.AnnIntents])
	if err != nil {
		return left{}, err
	}
	isStale := isStale(lease, j.Now())
	markOnce(lease, entries)
	for _, e := range entries {
		if isStale && j.ClaimExists != nil {
			exists, err := j.ClaimExists(ctx, e)
			if err != nil {
				return left{}, fmt.Errorf("read claim %s, whose journal entry is stale: %w", e.Claim, err)
			}
			if !exists {
				j.warnOfStale(ctx, e)
				continue
			}
		}
		found.entries = append(found.entries, e)
	}
	if len(found.entries) < len(entries) {
		text, err := intent.Encode(found.entries)
		if err != nil {
			return left{}, err
		}
		lease.Annotations[names.AnnIntents] = text
	}
	if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" && lease.Spec.LeaseDurationSeconds != nil {
		found.callTimeout = time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second + margin
	}
	return found, nil
}

// isStale reports whether the entries of a Lease are stale.
func isStale(lease *coordinationv1.Lease, now time.Time) bool {
	return intent.IsStale(ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time, now)
}

// warnOfStale logs the volume of a dropped entry.
func (j *Journal) warnOfStale(ctx context.Context, e intent.Entry) {
	logr.FromContextOrDiscard(ctx).Info("a volume may have been created for a claim that does not exist any more. "+
		"The journal was not renewed for a day, so another provisioner may have served the claim since, and its data "+
		"may be kept: the volume is not deleted. If the storage system has one of this name that is not needed, "+
		"delete it there",
		"volume", e.VolumeName, "claim", e.Claim.String(), "days", intent.MaxUnrenewed.Hours()/24)
}

func (j *Journal) newLease(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: j.Namespace, Name: name, Annotations: map[string]string{},
		Labels: map[string]string{names.LabelManagedBy: names.ManagedByPurser},
	}}
}

// sign writes holder, time and duration into the Lease. The duration is the longer call timeout of
// this process and of previous leaders.
func (j *Journal) sign(lease *coordinationv1.Lease, holder string, previous time.Duration) {
	seconds := int32((max(j.CallTimeout, previous) + time.Second - 1) / time.Second)
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &holder, &seconds
	lease.Spec.RenewTime = new(metav1.NewMicroTime(j.Now()))
	if j.Node != "" {
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, names.AnnIntentsNode, j.Node)
	}
}

// write writes all entries and answers the callers that wait for this write.
func (j *Journal) write(ctx context.Context, holder string) error {
	next, err := j.take()
	if err == nil {
		err = j.update(ctx, next.text, next.repeated, holder)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.book.NotWritten()
	}
	answer(j.writing, next.refused, err)
	j.writing, j.busy = nil, false
	return err
}

// take returns the text to write. The callers that waited now wait for this write.
func (j *Journal) take() (next content, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.busy, j.writing, j.waiting = true, j.waiting, nil
	next.text, next.refused, err = j.book.Take()
	next.repeated = j.book.Repeated()
	return next, err
}

// content is what one write of the journal has.
type content struct {
	text     string
	repeated []types.UID // whose CreateVolume was sent more than once
	refused  []types.UID // whose entries do not fit
}

// update writes the Lease. After a conflict with a writer other than a new leader it reads the
// Lease and writes again.
func (j *Journal) update(ctx context.Context, text string, repeated []types.UID, holder string) error {
	ctx, cancel := context.WithTimeout(ctx, j.CallTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		lease := j.lease.DeepCopy()
		if lease.Annotations == nil {
			lease.Annotations = map[string]string{}
		}
		lease.Annotations[names.AnnIntents] = text
		j.sign(lease, holder, j.callsEnd.Sub(j.Now()))
		setRepeated(lease, repeated)
		sent := j.Now()
		err := j.put(ctx, lease)
		switch {
		case err == nil:
			j.took(sent)
			j.setLease(lease)
			return nil
		case !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) || attempt == attempts:
			return fmt.Errorf("write lease %s/%s: %w", j.Namespace, j.Name, err)
		}
		if err := j.reread(ctx); err != nil {
			return err
		}
	}
}

// put updates the Lease, or creates it if it was found deleted.
func (j *Journal) put(ctx context.Context, lease *coordinationv1.Lease) error {
	if lease.ResourceVersion != "" {
		return j.Writer.Update(ctx, lease)
	}
	err := j.Writer.Create(ctx, lease)
	if apierrors.IsAlreadyExists(err) { // a new leader has created it
		return ErrFenced
	}
	return err
}

// took stores the send time of a successful write, at which this process was still the holder.
func (j *Journal) took(sent time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.held = sent
}

// reread reads the Lease after a conflict. If it was deleted, the next attempt creates it.
func (j *Journal) reread(ctx context.Context) error {
	lease := &coordinationv1.Lease{}
	err := j.Live.Get(ctx, client.ObjectKey{Namespace: j.Namespace, Name: j.Name}, lease)
	switch {
	case apierrors.IsNotFound(err):
		lease = j.newLease(j.Name)
	case err != nil:
		return fmt.Errorf("read lease %s/%s: %w", j.Namespace, j.Name, err)
	case lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != j.Holder:
		return fmt.Errorf("lease %s/%s: %w", j.Namespace, j.Name, ErrFenced)
	}
	j.setLease(lease)
	return nil
}
