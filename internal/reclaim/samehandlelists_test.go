package reclaim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
)

// D-37: a new leader with a stale cache would delete a released volume although another
// PersistentVolume, which the previous leader wrote, has the same handle. A process that has not
// seen the release lists the PersistentVolumes with the handle live.
func TestSameHandleNotInTheCache(t *testing.T) {
	for name, tc := range map[string]struct {
		other *corev1.PersistentVolume
		calls int
		told  string
	}{
		"in use":          {sameHandle(phase(corev1.VolumeBound)), 0, `"same-handle"`},
		"released, too":   {sameHandle(), 1, ""},
		"another handle":  {sameHandle(phase(corev1.VolumeBound), func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = "i" }), 1, ""},
		"of other driver": {sameHandle(phase(corev1.VolumeBound), func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = "other" }), 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(nil, releasedVolume(), tc.other)
			r.Cached = over(newRig(nil, releasedVolume()).api)
			r.memory.forget("u")
			r.run(t)
			if told := strings.Join(r.events, " "); len(r.driver.deleted) != tc.calls || !strings.Contains(told, tc.told) {
				t.Errorf("called %d times, want %d; events %q", len(r.driver.deleted), tc.calls, told)
			}
		})
	}
}

// D-16, D-37: it may be attached under that name.
func TestAttachedSameHandleNotInTheCache(t *testing.T) {
	r := newRig(nil, releasedVolume(), sameHandle())
	r.Cached = over(newRig(nil, releasedVolume(), attachment("1", "same-handle")).api)
	r.memory.forget("u")
	if again := r.run(t); again != 0 || len(r.driver.deleted) > 0 || !strings.Contains(strings.Join(r.events, " "), "still attached to node node-1") {
		t.Errorf("again in %s, called %d times, events %q", again, len(r.driver.deleted), r.events)
	}
}

// D-37, C-71: the decision to discard a created volume gets the PersistentVolumes with its handle
// from a live list, although the cache does not have them.
func TestSharingIsReadLive(t *testing.T) {
	r := newRig(nil, sameHandle(phase(corev1.VolumeBound)))
	r.Cached = over(newRig(nil).api)
	var have []string
	all, err := r.Sharing(t.Context(), "h")
	for _, pv := range all {
		have = append(have, pv.Name)
	}
	if err != nil || !slices.Equal(have, []string{"same-handle"}) {
		t.Errorf("%q, %v", have, err)
	}
	r.Cached = over(newRig(nil, releasedVolume()).api) // which is gone
	if all, err = r.Sharing(t.Context(), "h"); err != nil || len(all) != 1 {
		t.Errorf("with one that is gone: %d, %v", len(all), err)
	}
}

// Writes of this process during the list are found in its own writes.
func TestSharingHasOwnWrites(t *testing.T) {
	r := newRig(nil)
	r.Live = interceptor.NewClient(r.api.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if err := c.List(ctx, list, opts...); err != nil {
				return err
			}
			mine := sameHandle(phase(corev1.VolumePending))
			err := c.Create(ctx, mine)
			r.Cached.Wrote(mine)
			return err
		},
	})
	r.Cached = fed(newRig(nil).api)
	if all, err := r.Sharing(t.Context(), "h"); err != nil || len(all) != 1 {
		t.Errorf("%d, %v", len(all), err)
	}
}

// The list is read page by page, to its end.
func TestListOfSeveralPages(t *testing.T) {
	r := newRig(nil)
	pages := map[string][]corev1.PersistentVolume{"": {*releasedVolume()}, "2": {}, "3": {*sameHandle()}}
	follows := map[string]string{"": "2", "2": "3"}
	r.Live = interceptor.NewClient(r.api.(client.WithWatch), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			asked := (&client.ListOptions{}).ApplyOptions(opts)
			if asked.Limit != kube.PageSize || asked.Raw != nil {
				t.Errorf("asked for %+v", asked)
			}
			list.(*corev1.PersistentVolumeList).Items = pages[asked.Continue]
			list.SetContinue(follows[asked.Continue])
			return nil
		},
	})
	if got, err := r.sameHandleLists.Of(t.Context(), "h", false); err != nil || !slices.Equal(got, []string{"pv", "same-handle"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// A request during a running list waits for the next list, since the running one may be too old for
// it. All waiting requests share that next list.
func TestListsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists []map[string][]string
		h := NewSameHandleLists(func(ctx context.Context, into map[string][]string) error {
			lists = append(lists, into)
			time.Sleep(10 * time.Millisecond)
			for handle := range into {
				into[handle] = []string{fmt.Sprint(handle, " in list ", len(lists))}
			}
			return ctx.Err()
		})
		var wg sync.WaitGroup
		ask := func(ctx context.Context, handle, want string, fails bool) {
			wg.Go(func() {
				if got, err := h.Of(ctx, handle, true); strings.Join(got, " ") != want || (err != nil) != fails {
					t.Errorf("%q: %q, %v", handle, got, err)
				}
			})
			synctest.Wait()
		}
		impatient, give := context.WithTimeout(t.Context(), time.Millisecond)
		defer give()
		ask(t.Context(), "a", "a in list 1", false)
		ask(impatient, "b", "", true)
		ask(t.Context(), "a", "a in list 2", false)
		ask(t.Context(), "c", "c in list 2", false)
		wg.Wait()
		if len(lists) != 2 {
			t.Errorf("%d lists", len(lists))
		}
		began := time.Now()
		ask(t.Context(), "a", "a in list 3", false)
		if wg.Wait(); time.Since(began) != 50*time.Millisecond {
			t.Errorf("the third was there after %s, though the second had just ended", time.Since(began))
		}
		time.Sleep(time.Minute)
	})
}

// Only lists for retries are delayed; the first list for a volume, as in a burst of releases, is
// not.
func TestFirstListsAreNotDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewSameHandleLists(func(context.Context, map[string][]string) error { time.Sleep(10 * time.Millisecond); return nil })
		began := time.Now()
		for _, handle := range []string{"a", "b"} {
			if _, err := h.Of(t.Context(), handle, false); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 20*time.Millisecond {
			t.Errorf("two lists took %s", took)
		}
		time.Sleep(time.Minute)
	})
}

// D-37: nothing is deleted, and nothing said of PersistentVolumes with the same handle, while the
// API server does not answer.
func TestListFails(t *testing.T) {
	r := newRig(nil, releasedVolume())
	r.Live = interceptor.NewClient(r.api.(client.WithWatch), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("busy")
		},
	})
	r.memory.forget("u")
	if again := r.run(t); again == 0 || len(r.driver.deleted) > 0 {
		t.Errorf("again in %s, called %d times", again, len(r.driver.deleted))
	}
	if _, err := r.Sharing(t.Context(), "h"); err == nil {
		t.Error("no volume has the handle")
	}
}

// D-31, I3: the list takes a while, in which an administrator saves the volume.
func TestVolumeSavedDuringTheList(t *testing.T) {
	for name, save := range map[string]func(*corev1.PersistentVolume){
		"kept": func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		},
		"given to another claim": func(pv *corev1.PersistentVolume) {
			pv.Spec.ClaimRef.Name, pv.Spec.ClaimRef.UID = "b", "b"
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := claim("c")
			b.Name, b.UID = "b", "b"
			r := newRig(nil, releasedVolume(), b)
			r.memory.forget("u")
			read := r.Live
			r.Live = interceptor.NewClient(r.api.(client.WithWatch), interceptor.Funcs{
				Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					return read.Get(ctx, key, o, opts...)
				},
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					pv := &corev1.PersistentVolume{}
					if err := c.Get(ctx, client.ObjectKey{Name: "pv"}, pv); err != nil {
						return err
					}
					save(pv)
					return errors.Join(c.Update(ctx, pv), read.List(ctx, list, opts...))
				},
			})
			if r.run(t); len(r.driver.deleted) > 0 || len(r.events) > 0 {
				t.Errorf("called %d times, events %q", len(r.driver.deleted), r.events)
			}
		})
	}
}

// D-37: a volume that had to wait for its turn is looked at again, and needs no list: the watch has
// shown its release, and all volumes that there were by then.
func TestReleaseObservedTooLongAgo(t *testing.T) {
	r := newRig(nil, releasedVolume())
	r.Settings.Clock.(*clocktesting.FakeClock).Step(time.Hour)
	if r.run(t); len(r.driver.deleted) != 1 || !slices.Equal(r.reads, []string{"/pv", "crew/logbook"}) {
		t.Errorf("called %d times, read %q", len(r.driver.deleted), r.reads)
	}
}

// D-37: another claim was given the volume after it was looked at, and before the call begins. All
// volumes are read again, and then those that are gone do not matter.
func TestSameHandleWrittenBeforeTheCall(t *testing.T) {
	for name, tc := range map[string]struct {
		write bool
		calls int
	}{
		"written": {true, 0}, "shown, and gone": {false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(nil, releasedVolume())
			other := sameHandle(phase(corev1.VolumePending), func(pv *corev1.PersistentVolume) { pv.ResourceVersion = "" })
			locks := lastMinute{func() {
				if tc.write {
					if err := r.api.Create(t.Context(), other.DeepCopy()); client.IgnoreAlreadyExists(err) != nil {
						t.Error(err)
					}
				}
				r.Cached = over(newRig(nil, releasedVolume(), sameHandle()).api)
			}}
			r.caller = csirpc.NewCaller(csirpc.CallerConfig{Locks: locks, InFlight: r.InFlight, ReadSecret: kube.ReadSecret(r.Live)})
			r.run(t)
			if len(r.driver.deleted) != tc.calls || !slices.Equal(r.reads[:3], []string{"all", "/same-handle", "/pv"}) {
				t.Errorf("called %d times, read %q, events %q", len(r.driver.deleted), r.reads, r.events)
			}
			if refused := strings.Contains(strings.Join(r.events, " "), `"same-handle"`); refused != tc.write {
				t.Errorf("events %q", r.events)
			}
		})
	}
}

// lastMinute has something happen right before a call begins.
type lastMinute struct{ happens func() }

func (l lastMinute) Begin(string, string, string) (func(), error) {
	l.happens()
	return func() {}, nil
}
