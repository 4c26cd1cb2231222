package provision

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/provision"
)

// HandedOver are the claims that a binder in this process asks for. It does not write the
// provisioner into their annotations.
type HandedOver interface {
	// Has reports whether a claim is among them.
	Has(uid types.UID) bool
	// Subscribe has every claim told that is among them, or joins them.
	Subscribe(tell func(claim types.NamespacedName, uid types.UID))
	// Forget is called for claims that are bound or gone.
	Forget(uid types.UID)
}

// noHandOver is a HandedOver without claims, for a process without a binder.
type noHandOver struct{}

func (noHandOver) Has(types.UID) bool                              { return false }
func (noHandOver) Subscribe(func(types.NamespacedName, types.UID)) {}
func (noHandOver) Forget(types.UID)                                {}

// fromBinder enqueues the claims that are handed over.
func (c *Controller) fromBinder(_ context.Context, q queue) error {
	c.HandedOver.Subscribe(func(claim types.NamespacedName, uid types.UID) {
		q.Add(provision.Key{NamespacedName: claim, UID: uid})
	})
	return nil
}
