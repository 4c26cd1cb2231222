package sim

import (
	"context"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/objects"
	provisioning "github.com/purser-csi/purser/internal/provision"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/sources"
	source "github.com/purser-csi/purser/internal/sources/rules"
)

// brokenSources is a Sources of which one half does not work.
type brokenSources struct {
	provisioning.Sources
	protect func(context.Context, provisioning.Sources, provision.ProtectSource, types.UID) error
	silent  bool // gets no event at the end of calls and requests
}

func (b brokenSources) Protect(ctx context.Context, a provision.ProtectSource, claim types.UID) error {
	if b.protect == nil {
		return b.Sources.Protect(ctx, a, claim)
	}
	return b.protect(ctx, b.Sources, a, claim)
}

func (b brokenSources) Done(claim types.UID) {
	if !b.silent {
		b.Sources.Done(claim)
	}
}

func (b brokenSources) Resolved() {
	if !b.silent {
		b.Sources.Resolved()
	}
}

func breaksSources(b brokenSources) func(provisioning.Sources) provisioning.Sources {
	return func(s provisioning.Sources) provisioning.Sources {
		broken := b // one of its own for each world: they run side by side
		broken.Sources = s
		return broken
	}
}

// blindWriter updates the VolumeSnapshot that has the name, whichever version of it the caller has seen.
type blindWriter struct {
	client.Writer
	live client.Reader
}

// Update implements client.Writer.
func (b blindWriter) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if _, is := o.(*snapshotv1.VolumeSnapshot); is {
		now := &snapshotv1.VolumeSnapshot{}
		if err := b.live.Get(ctx, client.ObjectKeyFromObject(o), now); err != nil {
			return err
		}
		o.SetUID(now.UID)
		o.SetResourceVersion(now.ResourceVersion)
	}
	return b.Writer.Update(ctx, o, opts...)
}

// sourceMutants must all be caught.
var sourceMutants = []mutant{
	{name: "makes volumes from sources without the finalizer", sources: breaksSources(brokenSources{
		protect: func(context.Context, provisioning.Sources, provision.ProtectSource, types.UID) error { return nil },
	})},
	{name: "does not count the calls in flight and the claims that wait", protection: func(c *sources.Config) {
		c.Asks = func(*corev1.PersistentVolumeClaim) bool { return false }
	}, sources: breaksSources(brokenSources{
		protect: func(ctx context.Context, s provisioning.Sources, a provision.ProtectSource, claim types.UID) error {
			err := s.Protect(ctx, a, claim)
			s.Done(claim)
			return err
		},
	})},
	{
		name: "does not count the requests whose claims are gone (X-14)", by: "crash, and the sources are deleted while we are down",
		protection: func(c *sources.Config) {
			c.Requests = func(context.Context) ([]source.Request, error) { return nil, nil }
		},
	},
	{
		name: "removes a finalizer while the journal has a request that is resolved", by: rivalsOfSources.name,
		protection: func(c *sources.Config) { c.Flushed = func(context.Context) error { return nil } },
	},
	{name: "is not enqueued when a call or a request ends", by: "sources deleted", sources: breaksSources(brokenSources{silent: true})},
	{name: "keeps the finalizer of a claim whose class is gone", by: "everything deleted while something is missing", client: needs(objects.ClaimClass, &storagev1.StorageClass{})},
	{
		name: "adds the finalizer to whatever has the name of a cached snapshot", by: "watch",
		protection: func(c *sources.Config) { c.Writer = blindWriter{c.Writer, c.Live} },
	},
	{name: "emits no event", mute: true},
	{name: "takes the finalizers of other drivers off (X-16)", protection: func(c *sources.Config) { c.Driver = "other.example" }},
	{name: "looks at no snapshot that a former process protected", by: "crash, and the sources are deleted while we are down", unswept: true},
}
