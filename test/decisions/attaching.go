package decisions

import (
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/attachdetach"
	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	"github.com/purser-csi/purser/internal/attacher"
	publishing "github.com/purser-csi/purser/internal/attacher/rules"
)

// attaching notes what the attach-detach controller decides about a volume on all of its nodes.
func (r run) attaching(what string, o client.Object, key attachment.Key) {
	s, err := attachdetach.Gather(r.ctx, r.from.Cached, key, attachdetach.Memory{})
	note(r, what, o, attachment.Decide(s, r.now), err)
}

// attachment notes what csi-attacher decides, and the attach-detach controller for the handle that
// the VolumeAttachment remembers when its volume is gone.
func (r run) attachment(o *storagev1.VolumeAttachment) {
	s, err := attacher.Gather(r.ctx, r.from.Sidecars, o, attacher.Memory{
		Driver: publishing.Driver{Name: r.driver, Publishes: true},
	})
	note(r, "publish attachment", o, publishing.Decide(s, r.now), err)
	for _, handle := range attacher.RememberedHandle(o) {
		r.attaching("attach-detach attachment", o, attachment.Key{Driver: o.Spec.Attacher, Handle: handle})
	}
}
