package timelimit

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/purser-csi/purser/internal/driver/fault"
)

func work(doing string) Work { return Work{Target: "vol", Doing: doing, Bound: time.Minute} }

func TestWorkThatEndsIsAnswered(t *testing.T) {
	k := NewKeeper(0)
	got, err := Do(t.Context(), k, work("look"), func(context.Context) (int, error) { return 7, errors.New("seen") })
	if got != 7 || err == nil || err.Error() != "seen" {
		t.Errorf("Do = %d, %v", got, err)
	}
}

// The caller returns, other calls with the same target are refused, and calls with another target
// are not.
func TestHangingWorkReleasesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := NewKeeper(time.Second)
		ends := make(chan struct{})
		began := time.Now()
		_, err := Do(t.Context(), k, work("stage"), func(context.Context) (int, error) { <-ends; return 0, nil })
		if took := time.Since(began); !fault.Away.Is(err) || took != 61*time.Second {
			t.Errorf("after %s: %v", took, err)
		}
		never := func(context.Context) (int, error) { t.Error("began beside what hangs"); return 0, nil }
		time.Sleep(time.Minute)
		if _, err := Do(t.Context(), k, work("unstage"), never); !fault.Busy.Is(err) || !strings.Contains(err.Error(), "stage has been hanging since 2000-01-01T00:00:00Z (2m1s)") {
			t.Errorf("the same target: %v", err)
		}
		for _, free := range []Work{{Target: "other", Bound: time.Minute}, {Bound: time.Minute}} {
			if _, err := Do(t.Context(), k, free, func(context.Context) (int, error) { return 0, nil }); err != nil {
				t.Errorf("%+v: %v", free, err)
			}
		}
		close(ends)
		synctest.Wait()
		if _, err := Do(t.Context(), k, work("unstage"), func(context.Context) (int, error) { return 0, nil }); err != nil {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestACancelledCallerReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		_, err := Do(ctx, NewKeeper(time.Second), work("look"), func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 3*time.Second {
			t.Errorf("after %s: %v", took, err)
		}
	})
}
