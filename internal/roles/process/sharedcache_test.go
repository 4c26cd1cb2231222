package process

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/rest"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
)

// watches is a cache that counts its starts, and ends with its context or by itself.
type watches struct {
	ctrlcache.Cache
	started, running int
	fail             chan error
}

func (w *watches) Start(ctx context.Context) (err error) {
	w.started++
	w.running++
	defer func() { w.running-- }()
	select {
	case <-ctx.Done():
	case err = <-w.fail:
	}
	return err
}

// twoManagers returns a shared cache of the watches and two managers with contexts of their own.
func twoManagers(t *testing.T, w *watches) (v *SharedCache, end [2]context.CancelFunc, ended [2]chan error) {
	t.Helper()
	v = NewSharedCache(t.Context())
	v.cache = w
	close(v.made)
	for i := range end {
		var ctx context.Context
		ctx, end[i] = context.WithCancel(t.Context())
		mine, err := v.Share(ctx)(&rest.Config{}, ctrlcache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ended[i] = make(chan error, 1)
		go func() { ended[i] <- mine.Start(ctx) }()
	}
	synctest.Wait()
	return v, end, ended
}

// The watches run once, and last until both managers have ended, whichever started first.
func TestSharedCacheOutlivesEachManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watches{}
		v, end, ended := twoManagers(t, w)
		for i := range end {
			end[i]()
			if err := <-ended[i]; err != nil || w.started != 1 || w.running != 1 {
				t.Errorf("manager %d ended with %v; the watches were started %d times, and %d run", i, err, w.started, w.running)
			}
		}
		if v.Close(); w.running != 0 {
			t.Error("the watches outlive the process")
		}
	})
}

func TestViewThatFailsEndsBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watches{fail: make(chan error, 1)}
		v, end, ended := twoManagers(t, w)
		failed := errors.New("no")
		w.fail <- failed
		for i := range ended {
			if err := <-ended[i]; !errors.Is(err, failed) {
				t.Errorf("manager %d ended with %v", i, err)
			}
			end[i]()
		}
		v.Close()
	})
}

// Share returns when the controllers fail before they make the cache.
func TestShareReturnsWhenTheCacheIsNeverMade(t *testing.T) {
	v := NewSharedCache(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.Share(ctx)(&rest.Config{}, ctrlcache.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	v.Close()
}
