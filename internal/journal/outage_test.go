package journal

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// An API server that does not answer just when leaders change is waited for; what it refuses for
// good ends the process (H-44).
func TestATakeoverWaitsForTheAPIServer(t *testing.T) {
	for name, problem := range map[string]struct {
		err   error
		waits bool
	}{
		"no answer":      {errors.New("connection refused"), true},
		"a timeout":      {apierrors.NewTimeoutError("no", 1), true},
		"too much to do": {apierrors.NewTooManyRequests("no", 1), true},
		"overtaken":      {apierrors.NewConflict(leases, "j", errors.New("no")), true},
		"no permission":  {apierrors.NewForbidden(leases, "j", errors.New("no")), false},
		"a quota":        {apierrors.NewInvalid(schema.GroupKind{}, "j", nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				start(t, a, "former").end(t)
				a.refuse.Store(&problem.err)
				j := start(t, a, "next")
				time.Sleep(time.Minute)
				a.refuse.Store(nil)
				if problem.waits {
					record(t, j.Journal, 1)
					j.end(t)
				} else if err := <-j.ended; !errors.Is(err, problem.err) {
					t.Errorf("Start: %v", err)
				}
			})
		})
	}
}

// A Lease that another client writes all the time is not fought over without end (I5).
func TestConflictsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		j := start(t, a, "one")
		tries := a.refused.Load()
		conflict := error(apierrors.NewConflict(leases, "j", errors.New("no")))
		a.refuse.Store(&conflict)
		if err := j.Record(t.Context(), entry(1)); !errors.Is(err, conflict) {
			t.Errorf("recorded what was not written: %v", err)
		}
		if got := a.refused.Load() - tries; got != attempts {
			t.Errorf("written %d times", got)
		}
		a.refuse.Store(nil)
		record(t, j.Journal, 1)
		j.Done("uid-1")
		j.end(t)
	})
}

// Who ends while the takeover waits need not wait for it.
func TestATakeoverEndsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		silence := errors.New("connection refused")
		a.refuse.Store(&silence)
		j := start(t, a, "one")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := j.Wait(ctx); err == nil {
			t.Error("the journal is open")
		}
		j.stop()
		<-j.ended
	})
}
