package provision

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	provision "github.com/purser-csi/purser/internal/provision/rules"
)

// HandedOver has the claims for which the binder in this process requested a volume. The binder
// does not write the provisioner annotation for these.
type HandedOver interface {
	// Has reports whether a claim is one of them.
	Has(uid types.UID) bool
	// Subscribe calls tell for each present and each new claim.
	Subscribe(tell func(claim types.NamespacedName, uid types.UID))
	// Forget removes a claim that is bound or deleted.
	Forget(uid types.UID)
}

// noHandOver is the HandedOver of a process without a binder.
type noHandOver struct{}

func (noHandOver) Has(types.UID) bool                              { return false }
func (noHandOver) Subscribe(func(types.NamespacedName, types.UID)) {}
func (noHandOver) Forget(types.UID)                                {}

// fromBinder enqueues the claims of the binder.
func (c *Controller) fromBinder(_ context.Context, q queue) error {
	c.HandedOver.Subscribe(func(claim types.NamespacedName, uid types.UID) {
		q.Add(provision.Key{NamespacedName: claim, UID: uid})
	})
	return nil
}
