package provision

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	provision "github.com/purser-csi/purser/internal/provision/rules"
)

// scripted is a journal that says when a request is in the journal, and what bounds its call.
type scripted struct {
	*Memory
	recorded chan struct{}
	hold     func(context.Context) (context.Context, context.CancelFunc, error)
}

func (j scripted) Record(ctx context.Context, e intent.Entry) error {
	err := j.Memory.Record(ctx, e)
	if j.recorded != nil {
		close(j.recorded)
	}
	return err
}

func (j scripted) Hold(ctx context.Context, claim types.UID) (context.Context, context.CancelFunc, error) {
	if j.hold == nil {
		return j.Memory.Hold(ctx, claim)
	}
	return j.hold(ctx)
}

// While as many calls are under way as there may be, the next request is written to the journal, so
// that its call begins at once.
func TestCallsAreBoundedAndRecordsAreNot(t *testing.T) {
	r := newRig(t, withoutSecrets)
	recorded := make(chan struct{})
	r.Journal = scripted{Memory: r.journal, recorded: recorded}
	release, err := r.caller.Slot(t.Context(), "CreateVolume")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { r.run(t); close(ended) }()
	<-recorded
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.caller.Slot(impatient, "CreateVolume"); !errors.Is(err, context.Canceled) {
		t.Errorf("another call may begin: %v", err)
	}
	select {
	case <-ended:
		t.Error("the run did not wait for its turn")
	default:
	}
	release()
	<-ended
	if calls := len(r.driver.created); calls != 1 {
		t.Errorf("CreateVolume was called %d times", calls)
	}
}

// A process that is no longer the leader sends no request, so there is nothing to undo. The journal
// entry of an earlier attempt that may have sent one stays.
func TestNothingIsSentWithoutTheJournal(t *testing.T) {
	lost := func(context.Context) (context.Context, context.CancelFunc, error) {
		return nil, nil, errors.New("the journal is another's")
	}
	r := newRig(t, withoutSecrets)
	r.Journal = scripted{Memory: r.journal, hold: lost}
	r.run(t)
	if calls, entries := len(r.driver.created), r.journal.Len(); calls != 0 || entries != 0 {
		t.Errorf("a first attempt: %d calls, %d requests in the journal", calls, entries)
	}
	recorded := intent.Entry{Claim: r.key.NamespacedName, UID: r.key.UID, VolumeName: "pvc-u"}
	if err := r.journal.Record(t.Context(), recorded); err != nil {
		t.Fatal(err)
	}
	r.run(t)
	if calls, entries := len(r.driver.created), r.journal.Len(); calls != 0 || entries != 1 {
		t.Errorf("a repeated attempt: %d calls, %d requests in the journal", calls, entries)
	}
}

// A call ends before the next leader may repeat or undo it, however much time a call may take.
func TestTheJournalBoundsTheCall(t *testing.T) {
	r := newRig(t, withoutSecrets)
	d := &timed{}
	r.CSI, r.Timeout = d, time.Hour
	r.Journal = scripted{Memory: r.journal, hold: func(ctx context.Context) (context.Context, context.CancelFunc, error) {
		bounded, cancel := context.WithTimeout(ctx, time.Minute)
		return bounded, cancel, nil
	}}
	r.run(t)
	if d.left <= 0 || d.left > time.Minute {
		t.Errorf("the call may take %s, want a minute at most", d.left)
	}
}

// H-15, H-14: what a refused call may have left is found out when the claim is gone, and deleted. A
// deletion that fails is tried again by the handle, which then is known; and none begins without
// the journal.
func TestVolumeOfAFailedCallIsDeleted(t *testing.T) {
	r := newRig(t, withoutSecrets)
	r.driver.echo = func(map[string]string) string { return "half done" }
	expect := func(what string, created, deleted, entries int) {
		t.Helper()
		r.clock.Step(time.Hour)
		r.run(t)
		if len(r.driver.created) != created || len(r.driver.deleted) != deleted || r.journal.Len() != entries {
			t.Errorf("%s: CreateVolume %d times, DeleteVolume %d times, %d in the journal; want %d, %d, %d",
				what, len(r.driver.created), len(r.driver.deleted), r.journal.Len(), created, deleted, entries)
		}
	}
	r.driver.create = codes.Internal
	expect("refused", 1, 0, 1)
	if err := r.api.Delete(t.Context(), r.claim(t)); err != nil {
		t.Fatal(err)
	}
	expect("refused again", 2, 0, 1)
	r.driver.create, r.driver.remove = codes.OK, codes.FailedPrecondition
	expect("found", 3, 1, 1)
	journal := r.Journal
	r.Journal = scripted{Memory: r.journal, hold: func(context.Context) (context.Context, context.CancelFunc, error) {
		return nil, nil, errors.New("the journal is another's")
	}}
	expect("without the journal", 3, 1, 1)
	r.Journal = journal
	expect("not deleted", 3, 2, 1)
	r.driver.remove = codes.OK
	expect("deleted", 3, 3, 0)
}

// I7: no call for a volume begins while another one is under way. That is as if the driver had said
// so: nothing is known, and it is tried again.
func TestOneCallForAVolumeAtATime(t *testing.T) {
	r := newRig(t, withoutSecrets)
	end, err := r.Calls.Begin("DeleteVolume", "pvc-u", "")
	if err != nil {
		t.Fatal(err)
	}
	r.run(t)
	if calls, entries := len(r.driver.created), r.journal.Len(); calls != 0 || entries != 1 {
		t.Errorf("while it is deleted: %d calls, %d requests in the journal", calls, entries)
	}
	end()
	r.clock.Step(time.Hour)
	r.run(t)
	if calls, entries := len(r.driver.created), r.journal.Len(); calls != 1 || entries != 0 {
		t.Errorf("afterwards: %d calls, %d requests in the journal", calls, entries)
	}
}

// slowWriter does something before it writes a PersistentVolume.
type slowWriter struct {
	client.Client
	before func()
}

func (s slowWriter) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	s.before()
	return s.Client.Create(ctx, o, opts...)
}

// I7, D-37: a driver may answer with a volume that is being deleted for another PersistentVolume of
// it: then there is no telling what the answer is worth. From the answer until the PersistentVolume
// is written, no deletion begins.
func TestAnswerWithAVolumeThatIsDeleted(t *testing.T) {
	r := newRig(t, withoutSecrets)
	var meanwhile error
	r.Writer = slowWriter{r.api, func() { _, meanwhile = r.Calls.Begin("DeleteVolume", "pvc-other", "h") }}
	end, err := r.Calls.Begin("DeleteVolume", "pvc-other", "h")
	if err != nil {
		t.Fatal(err)
	}
	for calls, entries := range []int{1, 0} {
		r.clock.Step(time.Hour)
		if r.run(t); len(r.driver.created) != calls+1 || r.journal.Len() != entries {
			t.Errorf("%d calls, %d requests in the journal, want %d", len(r.driver.created), r.journal.Len(), entries)
		}
		end()
	}
	if meanwhile == nil {
		t.Error("a deletion began between the answer and its PersistentVolume")
	}
	if _, err := r.Calls.Begin("DeleteVolume", "pvc-other", "h"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// D-37: what is discarded may be answered to another claim's request while it is asked who has it.
func TestDiscardBeginsBeforeItAsks(t *testing.T) {
	r := newRig(t, withoutSecrets)
	var got error
	r.Sharing = func(context.Context, string) ([]*corev1.PersistentVolume, error) {
		if _, got = r.Calls.LockHandle("pvc-other", "h"); r.caller.Busy() > 0 {
			t.Error("a call is held up meanwhile")
		}
		return nil, nil
	}
	if _, err := r.Apply(t.Context(), provision.Snapshot{Key: r.key, Driver: r.Driver}, provision.DiscardVolume{Name: "pvc-u", Handle: "h"}); err != nil || got == nil || len(r.driver.deleted) != 1 {
		t.Errorf("%v; the other one: %v; %d calls", err, got, len(r.driver.deleted))
	}
}

// discarding is a journal that says what is to be deleted.
type discarding struct {
	*Memory
	discard func(handle string) error
}

func (j discarding) Discard(_ context.Context, _ types.UID, handle string) error {
	return j.discard(handle)
}

// H-14: DeleteVolume of a volume that no claim wants is called when its handle is recorded, and not
// without that, whether the claim exists or not.
func TestHandleIsRecordedBeforeItsDeletion(t *testing.T) {
	for name, gone := range map[string]bool{"the claim is gone": true, "the class is gone": false} {
		r := newRig(t, withoutSecrets)
		r.driver.create, r.driver.echo = codes.Unavailable, func(map[string]string) string { return "no answer" }
		r.run(t)
		r.driver.create = codes.OK
		if gone {
			r.remove(t, r.claim(t))
		} else {
			r.remove(t, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}})
		}
		recorded, full := "", errors.New("not written")
		r.Journal = discarding{r.journal, func(handle string) error {
			recorded = handle
			return full
		}}
		for _, want := range []int{0, 1} {
			r.clock.Step(time.Hour)
			if want == 1 {
				full = nil
			}
			result, err := r.Loop().Reconcile(t.Context(), r.key)
			if recorded != "h" || len(r.driver.deleted) != want {
				t.Errorf("%s: recorded %q, %d deletions, want %d; %v, %v", name, recorded, len(r.driver.deleted), want, result, err)
			}
		}
	}
}

// resolving is a journal that calls back before a request is resolved.
type resolving struct {
	*Memory
	before func()
}

func (j resolving) Resolve(ctx context.Context, claim types.UID) error {
	j.before()
	return j.Memory.Resolve(ctx, claim)
}

// Once the PersistentVolume is written it may be deleted, however long the rest takes.
func TestWrittenVolumeMayBeDeleted(t *testing.T) {
	r := newRig(t, withoutSecrets)
	err := errors.New("not resolved")
	r.Journal = resolving{r.journal, func() { _, err = r.Calls.Begin("DeleteVolume", "pvc-other", "h") }}
	if r.run(t); err != nil {
		t.Error(err)
	}
}

// However a run ends, nothing is kept from deletion by it any more.
func TestTheEndOfARunKeepsNothing(t *testing.T) {
	r := newRig(t, withoutSecrets)
	r.remove(t, r.claim(t))
	if err := r.keep(r.key.UID, "pvc-u", "h"); err != nil {
		t.Fatal(err)
	}
	r.run(t)
	if _, err := r.Calls.Begin("DeleteVolume", "pvc-other", "h"); err != nil {
		t.Error(err)
	}
}

// D-37: a volume whose PersistentVolume may be written, or not, since that had no answer, is not
// deleted by another claim's end until a later run knows.
func TestVolumeThatMayBeWrittenIsKept(t *testing.T) {
	for name, arrives := range map[string]bool{"it is written": true, "it is not": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withoutSecrets)
			lost := true
			r.Writer = interceptor.NewClient(r.api.(client.WithWatch), interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if _, is := o.(*corev1.PersistentVolume); !is || !lost {
						return c.Create(ctx, o, opts...)
					}
					lost = false
					if arrives {
						_ = c.Create(ctx, o.DeepCopyObject().(client.Object), opts...)
					}
					return errors.New("connection reset by peer")
				},
			})
			r.run(t)
			if _, err := r.Calls.Begin("DeleteVolume", "pvc-other", "h"); err == nil {
				t.Error("it may be deleted")
			}
			for range 3 {
				r.clock.Step(time.Hour)
				r.run(t)
			}
			if _, err := r.Calls.Begin("DeleteVolume", "pvc-other", "h"); err != nil {
				t.Errorf("and can never be: %v", err)
			}
		})
	}
}
