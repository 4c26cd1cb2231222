package reclaim

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/kube"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
)

// Gather implements reconcile.Task.
func (c *Controller) Gather(ctx context.Context, name string) (reclaim.Snapshot, error) {
	m := c.memory()
	m.Removal = c.finalizersRemoved.before(name)
	return Gather(ctx, c.readers(), name, m)
}

func (c *Controller) readers() kube.Readers {
	return kube.Readers{Cached: c.Cached, Live: c.Live, AllVolumes: c.allVolumes()}
}

// memory returns this process's own state, without its writes to the one volume.
func (c *Controller) memory() Memory {
	return Memory{
		Now: c.Clock.Now(), Driver: c.Driver, Protector: c.DropProtection, Volumes: c.Volumes,
		SawRelease: c.sawRelease, IsComing: c.observedReleases.isComing, CallsEnd: c.callsEnd,
	}
}

// sawRelease reports whether the informer showed the release of the volume, and no attempt failed
// since.
func (c *Controller) sawRelease(pv *corev1.PersistentVolume) bool {
	return c.retries.Get(pv.Name).Failed == 0 && c.observedReleases.have(pv)
}

// callsEnd reads from the journal when a previous leader's calls for the volume must have ended.
func (c *Controller) callsEnd(ctx context.Context, pv *corev1.PersistentVolume) (time.Time, error) {
	if err := c.Journal.Wait(ctx); err != nil {
		return time.Time{}, err
	}
	var claim types.UID
	if ref := pv.Spec.ClaimRef; ref != nil {
		claim = ref.UID
	}
	return c.Journal.CallsEnd(pv.Name, claim), nil
}

// Sharing returns the driver's volumes with a handle, read live: a stale cache could cost data
// (D-37).
func (c *Controller) Sharing(ctx context.Context, handle string) ([]*corev1.PersistentVolume, error) {
	return c.sharing(ctx, handle, "", true)
}

// sharing is [Controller.Sharing] without the named volume. It reads the cache after the live list,
// for what this process wrote meanwhile. again says that the caller has listed before, so that the
// next list may be delayed.
func (c *Controller) sharing(ctx context.Context, handle, but string, again bool) ([]*corev1.PersistentVolume, error) {
	listed, err := c.sameHandleLists.Of(ctx, handle, again)
	if err != nil {
		return nil, err
	}
	cached, err := CachedWithHandle(ctx, c.Cached, handle, c.memory())
	if err != nil {
		return nil, err
	}
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(listed, NamesOf(cached)))))
	all = slices.DeleteFunc(all, func(name string) bool { return name == but })
	return WithHandle(ctx, c.allVolumes(), c.Driver.Name, handle, all)
}
