package provision

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/intent"
	"github.com/purser-csi/purser/internal/core/provision"
	"github.com/purser-csi/purser/internal/kube"
)

// expecting has the journal know what will be asked for. One handler sees all changes of a claim,
// one after the other, so that nothing is expected of a claim which it has seen bound or gone; what
// is asked for is for the run to record.
func (c *Controller) expecting(ctx context.Context) toolscache.ResourceEventHandler {
	see := func(in any, gone bool) {
		claim, ok := claimSeen(in)
		if !ok {
			return
		}
		if e, ahead := c.ahead(ctx, claim); ahead && !gone && !c.finished.has(claim.UID) {
			c.Journal.Expect(e)
		} else if gone || claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil || !c.asksUs(claim) {
			c.Journal.Unexpect(claim.UID)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(in any) { see(in, false) },
		UpdateFunc: func(was, is any) {
			if isAnother(was, is) {
				see(was, true)
			}
			see(is, false)
		},
		DeleteFunc: func(in any) { see(in, true) },
	}
}

// isAnother reports whether an object was deleted and created again while the watch was broken.
func isAnother(was, is any) bool {
	before, ok := was.(client.Object)
	after, too := is.(client.Object)
	return ok && too && before.GetUID() != after.GetUID()
}

// ahead works nothing out for claims that have a volume, which are nearly all, or of other drivers'
// classes.
func (c *Controller) ahead(ctx context.Context, claim *corev1.PersistentVolumeClaim) (intent.Entry, bool) {
	name := provision.ClassName(claim)
	if claim.Spec.VolumeName != "" || name == "" || provision.Provisioner(claim) != "" {
		return intent.Entry{}, false
	}
	class, err := kube.Get(ctx, c.Cached, client.ObjectKey{Name: name}, &storagev1.StorageClass{})
	if err != nil || class == nil {
		return intent.Entry{}, false
	}
	return provision.Ahead(
		provision.Snapshot{Key: keyOf(claim), Claim: claim, Class: class, Driver: c.Driver, Options: c.Options},
	)
}
