package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// ErrUnreadable says that the journal cannot be read, so that no request may be sent.
var ErrUnreadable = errors.New("the journal of volume requests cannot be read")

// unreadable returns the error about a Lease: what is wrong, how to look at it, and the ways out.
func unreadable(lease *coordinationv1.Lease, cause error) error {
	return fmt.Errorf("lease %s/%s: %w: %w. Look at it with: %s. "+
		"If a newer version of Purser wrote it, run that version. "+
		"Else %s goes on without it and keeps the text in the annotation %s. The risk: %s",
		lease.Namespace, lease.Name, ErrUnreadable, cause,
		shell.Command("kubectl -n %s get lease %s -o yaml", lease.Namespace, lease.Name),
		intent.FlagSkipUnreadable, names.AnnIntentsUnreadable, intent.SkipRisk)
}

// setAside moves the text of a journal that cannot be read, if the flag says so; the caller writes
// the Lease. skipped is why it cannot be read.
func (j *Journal) setAside(lease *coordinationv1.Lease) (skipped, err error) {
	skipped = intent.Check(lease.Annotations)
	if skipped == nil {
		return nil, nil
	}
	err = unreadable(lease, skipped)
	if j.SkipUnreadable {
		problem := intent.SetAside(lease.Annotations)
		if problem == nil {
			return skipped, nil
		}
		err = fmt.Errorf("%w. The text cannot be set aside: %w; save it, and remove it from the Lease with: %s",
			err, problem, shell.Command("kubectl -n %s annotate lease %s %s- %s-",
				lease.Namespace, lease.Name, names.AnnIntents, names.AnnIntentsUnreadable))
	}
	j.warn(lease, verdict.JournalUnreadable, err.Error())
	return nil, err
}

// sayWhatIsSkipped emits an event about a text that was set aside.
func (j *Journal) sayWhatIsSkipped(ctx context.Context, found left) {
	if found.skipped == nil {
		return
	}
	text := fmt.Sprintf("%s goes on without the requests of a journal that cannot be read: %v. Its text is in the "+
		"annotation %s. The risk: %s",
		intent.FlagSkipUnreadable, found.skipped, names.AnnIntentsUnreadable, intent.SkipRisk)
	logr.FromContextOrDiscard(ctx).Info(text, "lease", found.lease.Namespace+"/"+found.lease.Name)
	j.warn(found.lease, verdict.JournalSkipped, text)
}

func (j *Journal) warn(lease *coordinationv1.Lease, reason verdict.Reason, text string) {
	if j.Events != nil {
		j.Events.Event(lease, corev1.EventTypeWarning, string(reason), text)
	}
}

// awaitSkipped waits until the calls of a previous leader must have ended whose entries were
// skipped: no entry says which volumes they may create.
func (j *Journal) awaitSkipped(ctx context.Context, found left) {
	if found.skipped != nil && !j.PreviousCallsEnded {
		pause(ctx, found.callTimeout)
	}
}

// setLease stores the Lease as it is in the API server. A text that was set aside takes its room.
func (j *Journal) setLease(lease *coordinationv1.Lease) {
	j.lease = lease
	j.mu.Lock()
	defer j.mu.Unlock()
	j.book.Reserve(len(lease.Annotations[names.AnnIntentsUnreadable]))
}
