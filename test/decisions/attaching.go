package decisions

import (
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/attachdetach"
	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	"github.com/purser-csi/purser/internal/attacher"
	publishing "github.com/purser-csi/purser/internal/attacher/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/verdict"
)

// attaching notes what the attach-detach controller decides about a volume on all of its nodes.
func (r run) attaching(what string, o client.Object, key attachment.Key) {
	s, err := attachdetach.Gather(r.ctx, r.from.Cached, key, attachment.Rules{}, &attachdetach.Memory{})
	var v attachment.Verdict
	if err == nil {
		_, v, err = verdict.Settle(
			s, func(s attachment.Snapshot) attachment.Verdict { return attachment.Decide(s, r.now) },
			func(s attachment.Snapshot, refs []verdict.Ref) (attachment.Snapshot, error) {
				return attachdetach.Read(r.ctx, r.from.Live, s, refs)
			},
		)
	}
	note(r, what, o, v, err)
}

// attachment notes what csi-attacher decides, and the attach-detach controller for the handle that
// the VolumeAttachment remembers when its volume is gone.
func (r run) attachment(o *storagev1.VolumeAttachment) {
	s, err := attacher.Gather(r.ctx, r.from.Sidecars, o, publishing.Driver{Name: r.driver, Publishes: true})
	var v publishing.Verdict
	if err == nil {
		_, v, err = verdict.Settle(
			s, func(s publishing.Snapshot) publishing.Verdict { return publishing.Decide(s, r.now) },
			func(s publishing.Snapshot, refs []verdict.Ref) (publishing.Snapshot, error) {
				return attacher.Read(r.ctx, kube.Readers{Cached: r.from.Sidecars, Live: r.from.Sidecars}, s, refs)
			},
		)
	}
	note(r, "publish attachment", o, v, err)
	for _, handle := range attacher.RememberedHandle(o) {
		r.attaching("attach-detach attachment", o, attachment.Key{Driver: o.Spec.Attacher, Handle: handle})
	}
}
