package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/intent"
	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/kube"
)

const (
	// attempts is how often in a row a page is read and written again because somebody else was
	// faster.
	attempts = 5
	// again is how long a takeover waits for an API server that did not answer.
	again = time.Second
)

var errUnreadable = errors.New("the page cannot be read")

// pageState is what is known of the object of a page.
type pageState struct{ lease *coordinationv1.Lease }

func (j *Journal) pageName(i int) string {
	if i == 0 {
		return j.Name
	}
	return j.Name + "-" + strconv.Itoa(i)
}

// open takes over every page. The first names how many there are, and is written before a further
// one is created: so a former leader cannot begin a page that we do not see.
func (j *Journal) open(ctx context.Context) error {
	first, err := j.seizeAtLast(ctx, 0)
	if (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)) && j.Needed == BestEffort {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.memory = true
		logr.FromContextOrDiscard(ctx).
			Info("volume requests are remembered in memory only: a volume that is being created when this process is killed may be lost. "+
				"Allow get, create and update of leases.coordination.k8s.io in the namespace, or silence this with --intents=off",
				"namespace", j.Namespace, "problem", err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	found := []seized{first}
	for i := 1; i < first.pages; i++ {
		page, err := j.seizeAtLast(ctx, i)
		if err != nil {
			return err
		}
		found = append(found, page)
	}
	// Only now can no former holder begin another call, so its calls end within their bound from
	// here.
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, page := range found {
		j.pages = append(j.pages, pageState{page.lease})
		j.load(i, page, now)
	}
	if n := j.book.Len(); n > 0 {
		logr.FromContextOrDiscard(ctx).Info("took over volume requests that are not settled", "requests", n)
	}
	return nil
}

// load puts on record what a former holder left on a page that nobody else has since the given
// time. The caller holds mu.
func (j *Journal) load(i int, page seized, since time.Time) {
	var due time.Time
	if page.callTimeout > 0 && !j.FormerEnded {
		due = since.Add(page.callTimeout)
	}
	if len(page.entries) > 0 && due.After(j.formerEnds) {
		j.formerEnds = due
	}
	j.book.Load(i, page.entries, due)
}

// seized is a page that was taken over, and what a former holder left there.
type seized struct {
	lease       *coordinationv1.Lease
	entries     []intent.Entry
	pages       int           // how many there are, on the first page
	callTimeout time.Duration // how long calls of the former holder may take; 0 when it gave the page back
}

// seizeAtLast seizes a page as soon as the API server is able to answer: it often is not just when
// leaders change, and a process that ended for that would leave its claims for longer.
func (j *Journal) seizeAtLast(ctx context.Context, i int) (seized, error) {
	for {
		page, err := j.seize(ctx, i, fromAnybody)
		if err == nil || kube.IsRefusal(err) && !isOvertaken(err) || errors.Is(err, errUnreadable) || ctx.Err() != nil {
			return page, err
		}
		logr.FromContextOrDiscard(ctx).
			Info("the journal of volume requests was not taken over yet", "page", i, "problem", err.Error())
		pause(ctx, again)
	}
}

// isOvertaken reports whether somebody else was faster.
func isOvertaken(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// fromAnybody is for who takes over: whoever had a page has lost it.
func fromAnybody(context.Context, *coordinationv1.Lease) error { return nil }

// fromNoSuccessor is for who adds a page, and finds that it exists. A new leader takes over the
// first page before it looks at this one: if the first is still ours, whoever has this one came
// before us.
func (j *Journal) fromNoSuccessor(ctx context.Context, page *coordinationv1.Lease) error {
	if j.holds(page) {
		return nil
	}
	first := &coordinationv1.Lease{}
	if err := j.Live.Get(ctx, client.ObjectKey{Namespace: j.Namespace, Name: j.pageName(0)}, first); err != nil {
		return err
	}
	if !j.holds(first) {
		return ErrFenced
	}
	return nil
}

func (j *Journal) holds(page *coordinationv1.Lease) bool {
	holder := page.Spec.HolderIdentity
	return holder != nil && *holder == j.Holder
}

// seize makes this process the holder of a page, if it may take it from whoever was.
func (j *Journal) seize(
	ctx context.Context,
	i int,
	mayTake func(context.Context, *coordinationv1.Lease) error,
) (seized, error) {
	for attempt := 1; ; attempt++ {
		lease := &coordinationv1.Lease{}
		err := j.Live.Get(ctx, client.ObjectKey{Namespace: j.Namespace, Name: j.pageName(i)}, lease)
		sent := time.Now()
		switch {
		case apierrors.IsNotFound(err):
			var page seized
			if page, err = j.makePage(ctx, i); err == nil {
				j.took(i, sent)
				return page, nil
			}
		case err == nil:
			if err := mayTake(ctx, lease); err != nil {
				return seized{}, fmt.Errorf("lease %s/%s: %w", j.Namespace, lease.Name, err)
			}
			var page seized
			if page, err = read(lease); err != nil {
				return seized{}, fmt.Errorf(
					"lease %s/%s: %w: %w; its requests must be settled by the version that wrote them",
					j.Namespace,
					lease.Name,
					errUnreadable,
					err,
				)
			}
			j.sign(lease, page.callTimeout-margin)
			keepNow(lease, intent.StaleOf(page.entries))
			if err = j.Writer.Update(ctx, lease); err == nil {
				j.took(i, sent)
				page.lease = lease
				return page, nil
			}
		}
		if !isOvertaken(err) || attempt == attempts {
			return seized{}, fmt.Errorf("take over lease %s/%s: %w", j.Namespace, j.pageName(i), err)
		}
	}
}

func read(lease *coordinationv1.Lease) (seized, error) {
	page := seized{pages: 1}
	var err error
	if page.entries, err = intent.Decode(lease.Annotations[names.AnnIntents]); err != nil {
		return page, err
	}
	kept(lease).Tell(page.entries, time.Now())
	if text := lease.Annotations[names.AnnIntentPages]; text != "" {
		if page.pages, err = strconv.Atoi(text); err != nil || page.pages > intent.MaxPages {
			return page, fmt.Errorf("annotation %s=%q is not a number of pages", names.AnnIntentPages, text)
		}
	}
	if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" && lease.Spec.LeaseDurationSeconds != nil {
		page.callTimeout = time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second + margin
	}
	return page, nil
}

// makePage makes a page that does not exist. A first one names those that are there: somebody has
// deleted one which named them, and who takes it over next must find them too.
func (j *Journal) makePage(ctx context.Context, i int) (seized, error) {
	page := seized{lease: j.newPage(i), pages: 1}
	if i == 0 {
		var err error
		if page.pages, err = j.left(ctx); err != nil {
			return page, err
		}
		annotate(page.lease, names.AnnIntentPages, strconv.Itoa(page.pages))
	}
	return page, j.Writer.Create(ctx, page.lease)
}

// left is how many pages there are, with a first one that is yet to be made.
func (j *Journal) left(ctx context.Context) (pages int, err error) {
	for pages = 1; pages < intent.MaxPages; pages++ {
		err := j.Live.Get(ctx, client.ObjectKey{Namespace: j.Namespace, Name: j.pageName(pages)}, &coordinationv1.Lease{})
		if apierrors.IsNotFound(err) {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	return pages, nil
}

func (j *Journal) newPage(i int) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: j.Namespace, Name: j.pageName(i), Annotations: map[string]string{},
		Labels: map[string]string{names.LabelManagedBy: names.ManagedByPurser},
	}}
	j.sign(lease, 0)
	keepNow(lease, nil)
	return lease
}

// sign writes the holder into the page, and how long calls for what is on it may take: ours, and
// those of a former holder, whose timeout may have been another one. Whoever comes next reads no
// more than this.
func (j *Journal) sign(lease *coordinationv1.Lease, former time.Duration) {
	seconds := int32((max(j.CallTimeout, former) + time.Second - 1) / time.Second)
	lease.Spec.HolderIdentity = &j.Holder
	lease.Spec.LeaseDurationSeconds = &seconds
}

// mostText is how long the two texts may be together: what the API server allows for all
// annotations, but for some of others.
const mostText = 256<<10 - 1<<10

// keepNow writes into a page that somebody keeps it, and which of the entries on it nobody had kept
// for long before, which whoever takes it over next must know too (H-1). Where there are some, the
// Lease has no time: a former version, which knows no other one, must take the whole page for one
// that nobody has kept, and writes the time again as soon as it has looked at all of it. Then what
// is noted here counts no more. If there is no room for that, nobody knows, and the whole page is
// taken for such; no new request comes onto one that is so full.
func keepNow(lease *coordinationv1.Lease, stale []types.UID) {
	now := metav1.NowMicro()
	lease.Spec.RenewTime = &now
	delete(lease.Annotations, names.AnnIntentsKept)
	if len(stale) == 0 {
		return
	}
	lease.Spec.RenewTime = nil
	if text := (intent.Kept{Last: now.Time, Stale: stale}).Text(); len(
		text,
	)+len(
		lease.Annotations[names.AnnIntents],
	) <= mostText {
		annotate(lease, names.AnnIntentsKept, text)
	}
}

// kept is what a page says of that. What is not understood says nothing.
func kept(lease *coordinationv1.Lease) intent.Kept {
	if renewed := lease.Spec.RenewTime; renewed != nil {
		return intent.Kept{Last: renewed.Time}
	}
	k, err := intent.ParseKept(lease.Annotations[names.AnnIntentsKept])
	if err != nil {
		return intent.Kept{}
	}
	return k
}

// renew is for writes of a page that leave what stands on it: where the time is with that, it stays
// too.
func renew(lease *coordinationv1.Lease) {
	if lease.Spec.RenewTime != nil {
		lease.Spec.RenewTime = new(metav1.NowMicro())
	}
}

// flushPage writes one page and tells those who waited for it when it began; who comes later waits
// for the next write.
func (j *Journal) flushPage(ctx context.Context, i int) error {
	err := j.reach(ctx, i)
	text, stale, unfit := j.take(i)
	if err == nil {
		err = unfit
	}
	if err == nil {
		err = j.update(ctx, i, func(lease *coordinationv1.Lease) {
			annotate(lease, names.AnnIntents, text)
			keepNow(lease, stale)
		})
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.book.Spoil(i)
	}
	answer(j.writing, i, err)
	return err
}

// reach makes the objects up to a page, each after the first page names it. One that was there,
// since somebody deleted the first page which named it and one before it, keeps what is on it.
func (j *Journal) reach(ctx context.Context, i int) error {
	for len(j.pages) <= i {
		if err := j.announce(ctx, len(j.pages)+1); err != nil {
			return err
		}
		page, err := j.seize(ctx, len(j.pages), j.fromNoSuccessor)
		if err != nil {
			return err
		}
		j.adopt(len(j.pages), page)
		j.pages = append(j.pages, pageState{page.lease})
	}
	return nil
}

// adopt puts on record what a page holds that was there, and tells who works on it. Of a claim that
// we have a request of, ours is the newer one.
func (j *Journal) adopt(i int, page seized) {
	j.mu.Lock()
	defer j.mu.Unlock()
	page.entries = slices.DeleteFunc(page.entries, func(e intent.Entry) bool {
		_, ours := j.book.Get(e.UID)
		return ours
	})
	j.load(i, page, time.Now())
	if len(page.entries) == 0 {
		return
	}
	select {
	case j.adopted <- struct{}{}:
	default:
	}
}

// take is the text of a page, and what is stale in it; those who waited for it wait for this write
// from now on.
func (j *Journal) take(i int) (text string, stale []types.UID, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.writing[i] = j.waiting[i]
	delete(j.waiting, i)
	return j.book.Take(i)
}

func (j *Journal) announce(ctx context.Context, pages int) error {
	return j.update(
		ctx,
		0,
		func(lease *coordinationv1.Lease) { annotate(lease, names.AnnIntentPages, strconv.Itoa(pages)) },
	)
}

func annotate(lease *coordinationv1.Lease, key, value string) {
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[key] = value
}

// update changes the object of a page that we hold. A conflict with anybody but a new holder is
// resolved by writing again on top of what is there now.
func (j *Journal) update(ctx context.Context, i int, change func(*coordinationv1.Lease)) error {
	ctx, cancel := context.WithTimeout(ctx, j.CallTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		lease := j.pages[i].lease.DeepCopy()
		renew(lease)
		change(lease)
		j.sign(lease, time.Until(j.formerEnds))
		sent := time.Now()
		err := j.Writer.Update(ctx, lease)
		if err == nil {
			j.took(i, sent)
			j.pages[i].lease = lease
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) || attempt == attempts {
			return fmt.Errorf("write lease %s/%s: %w", j.Namespace, j.pageName(i), err)
		}
		if err := j.reread(ctx, i); err != nil {
			return err
		}
	}
}

// took notes that the API server took a write of a page that was sent at the given time. Nobody
// else was its holder by then.
func (j *Journal) took(i int, sent time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.held[i] = sent
}

// reread finds out why a write was refused. An object that somebody deleted is made again, and
// making it fails when a new holder was faster.
func (j *Journal) reread(ctx context.Context, i int) error {
	lease := &coordinationv1.Lease{}
	err := j.Live.Get(ctx, client.ObjectKey{Namespace: j.Namespace, Name: j.pageName(i)}, lease)
	if apierrors.IsNotFound(err) {
		lease = j.newPage(i)
		if i == 0 && len(j.pages) > 1 {
			annotate(lease, names.AnnIntentPages, strconv.Itoa(len(j.pages)))
		}
		if err = j.Writer.Create(ctx, lease); apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("lease %s/%s: %w", j.Namespace, j.pageName(i), ErrFenced)
		}
		j.mu.Lock()
		j.book.Lose(i) // what stood there is to be written again, whatever this write is about
		j.mu.Unlock()
	}
	if err != nil {
		return fmt.Errorf("read lease %s/%s: %w", j.Namespace, j.pageName(i), err)
	}
	if !j.holds(lease) {
		return fmt.Errorf("lease %s/%s: %w", j.Namespace, j.pageName(i), ErrFenced)
	}
	if lease.Annotations[names.AnnIntents] != j.pages[i].lease.Annotations[names.AnnIntents] {
		j.mu.Lock()
		j.book.Lose(i) // as above
		j.mu.Unlock()
	}
	j.pages[i].lease = lease
	return nil
}

// keep leaves the record with this process as its holder. It may have been deleted since it was
// written, and nobody would make it again.
func (j *Journal) keep(ctx context.Context) error {
	for i := 0; i < len(j.pages) && j.Len() > 0; i++ {
		if err := j.update(ctx, i, func(*coordinationv1.Lease) {}); err != nil {
			return err
		}
	}
	return j.flush(ctx)
}

// release writes what is left and gives every page back.
func (j *Journal) release(ctx context.Context) error {
	if err := j.flush(ctx); err != nil || j.memory {
		return err
	}
	for i := range j.pages {
		if err := j.giveBack(ctx, i); err != nil && !errors.Is(err, ErrFenced) {
			return err
		}
	}
	return nil
}

// giveBack leaves a page without a holder. One that somebody deleted is made again first if there
// is anything on record.
func (j *Journal) giveBack(ctx context.Context, i int) error {
	for attempt := 1; ; attempt++ {
		lease, nobody := j.pages[i].lease.DeepCopy(), ""
		lease.Spec.HolderIdentity = &nobody
		renew(lease)
		err := j.Writer.Update(ctx, lease)
		isChanged := apierrors.IsConflict(err) || apierrors.IsNotFound(err)
		if err == nil || isChanged && j.Len() == 0 {
			return nil
		}
		if !isChanged || attempt == attempts {
			return fmt.Errorf("give back lease %s/%s: %w", j.Namespace, j.pageName(i), err)
		}
		if err := j.reread(ctx, i); err != nil {
			return err
		}
		if err := j.flush(ctx); err != nil {
			return err
		}
	}
}
