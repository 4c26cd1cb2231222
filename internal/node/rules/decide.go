package mounting

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/verdict"
)

// RepublishAfter is how old the last publication of a driver with requiresRepublish may be: a
// kubelet repeats it at each sync of the pod, every 60 to 90 seconds (5.6).
const RepublishAfter = 75 * time.Second

// occupiedAgain is the pause before a look whether the folders of a volume are free: what ends the
// other volume is no event of this one.
const occupiedAgain = 10 * time.Second

// confirmAgain is the pause before a pod is read again that the cache still does not show. Usually
// the pod's event comes first.
const confirmAgain = 10 * time.Second

// Decide says what to do for a volume of the node.
func Decide(s Snapshot, now time.Time) Verdict {
	p := &plan{Snapshot: s, now: now}
	p.release()
	for _, use := range s.Uses {
		p.serve(use)
	}
	return p.verdict()
}

// plan collects the steps for one volume.
type plan struct {
	Snapshot
	now   time.Time
	reads []verdict.Ref
	steps []step
	last  []Action // when all steps are done
	// blocked is why a use gets no step; the first one is the verdict after the steps.
	blocked []verdict.Finding
	until   time.Time // when to requeue; zero for never
}

// step is a group of actions that fail together.
type step struct {
	of      any // publication or device, for the count of failures
	reason  verdict.Reason
	message string
	actions []Action
}

func (p *plan) block(reason verdict.Reason, format string, args ...any) {
	p.blocked = append(p.blocked, verdict.Finding{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

func (p *plan) lookAt(at time.Time) {
	if p.until.IsZero() || at.Before(p.until) {
		p.until = at
	}
}

// release ends what no pod wants: publications first, then the devices that no publication needs
// (5.2, 5.8).
func (p *plan) release() {
	kept := map[DeviceID]bool{}
	for _, use := range p.Uses {
		kept[use.ID.Device()] = true
	}
	releasing := false
	for _, publication := range p.Record.Publications {
		if slices.ContainsFunc(p.Uses, func(u Use) bool { return u.ID == publication.ID }) {
			continue
		}
		// A pod that runs keeps its mount when the claim is Lost, or claim or PersistentVolume are
		// gone.
		if p.Holders[publication.Pod] {
			kept[publication.Device()] = true
			continue
		}
		releasing = true
		if p.Driver == nil {
			kept[publication.Device()] = true
			continue
		}
		if publication.Found && !p.isGone(publication.Pod) {
			kept[publication.Device()] = true
			continue
		}
		p.steps = append(p.steps, step{
			publication.ID, verdict.Unpublishing, fmt.Sprintf("unpublishing the volume from pod %s", publication.Pod),
			[]Action{Unpublish{publication}},
		})
	}
	for _, device := range p.Record.Devices {
		if kept[device.DeviceID] {
			continue
		}
		releasing = true
		if p.Driver != nil {
			p.last = append(p.last, Unstage{device})
		}
	}
	if releasing && p.Driver == nil {
		p.block(verdict.MountDriverAwaited, "the volume is to be unmounted: %s", p.unregistered())
	}
}

// isGone reports whether a pod of a record from the disk is gone. The first list of pods may be stale, so
// it is read from the API server before its volume is unpublished (5.10).
func (p *plan) isGone(pod types.UID) bool {
	alive, read := p.Alive[pod]
	switch {
	case !read:
		p.reads = append(p.reads, verdict.Ref{What: RefPod, Name: string(pod)})
	case alive:
		p.lookAt(p.now.Add(confirmAgain))
		p.block(verdict.MountPodSeen, "the API server has pod %s, which the cache does not show yet", pod)
	}
	return read && !alive
}

// unregistered has a kubelet's words.
func (p *plan) unregistered() string {
	return fmt.Sprintf("driver name %s not found in the list of registered CSI drivers", p.Key.Driver)
}

// serve adds the steps for one use, in the order of 5.3.
func (p *plan) serve(use Use) {
	publication, _ := p.Record.Publication(use.ID)
	f := p.check(use)
	if f != nil && (publication.State != Certain || p.Driver == nil) { // a pod that has the volume keeps it
		p.blocked = append(p.blocked, *f)
		return
	}
	var actions []Action
	if !use.Key.IsInline() {
		device, known := p.Record.Device(use.ID.Device())
		if !known || device.State != Certain {
			if !p.isStaging(use) {
				actions = append(actions, Stage{use})
			}
		}
	}
	switch due := publication.At.Add(RepublishAfter); {
	case publication.State != Certain:
		actions = append(actions, Publish{use, publication})
	case !requiresRepublish(p.Info):
	case p.now.Before(due):
		p.lookAt(due)
	default:
		actions = append(actions, Publish{use, publication})
	}
	if p.needsExpansion(use) {
		actions = append(actions, Expand{use})
	}
	if len(actions) > 0 {
		p.steps = append(p.steps, step{
			use.ID, verdict.Publishing,
			fmt.Sprintf("publishing the volume to pod %s/%s", use.Pod.Namespace, use.Pod.Name), actions,
		})
	}
}

// isStaging reports whether an earlier step of this plan stages the device.
func (p *plan) isStaging(use Use) bool {
	return slices.ContainsFunc(p.steps, func(s step) bool {
		return slices.ContainsFunc(s.actions, func(a Action) bool {
			stage, ok := a.(Stage)
			return ok && stage.ID.Device() == use.ID.Device()
		})
	})
}

// check says what a use waits for; nil for nothing.
func (p *plan) check(use Use) *verdict.Finding {
	lifecycle := storagev1.VolumeLifecyclePersistent
	if use.Key.IsInline() {
		lifecycle = storagev1.VolumeLifecycleEphemeral
	}
	switch {
	case p.Driver == nil:
		return &verdict.Finding{Reason: verdict.MountDriverAwaited, Message: p.unregistered()}
	case use.Key.IsInline() && p.Info == nil:
		return unfit("volume mode %q not supported by driver %s (no CSIDriver object)", lifecycle, p.Key.Driver)
	case p.Info != nil && len(p.Info.Spec.VolumeLifecycleModes) > 0 &&
		!slices.Contains(p.Info.Spec.VolumeLifecycleModes, lifecycle):
		return unfit(
			"volume mode %q not supported by driver %s (only supports %q)", lifecycle, p.Key.Driver,
			p.Info.Spec.VolumeLifecycleModes,
		)
	case use.PV == nil:
		return nil
	case use.PV.Spec.NodeAffinity != nil &&
		!objects.MatchesNode(use.PV.Spec.NodeAffinity.Required, p.Node.Name, p.Node.Labels):
		return unfit("MountVolume.NodeAffinity check failed for volume %q : no matching NodeSelectorTerms", use.PV.Name)
	case p.Occupied[use.ID] != Key{}:
		p.lookAt(p.now.Add(occupiedAgain))
		return &verdict.Finding{Reason: verdict.MountTaken, Message: fmt.Sprintf(
			"PersistentVolume %q was made again with another handle, and the node still has %s under its name",
			use.PV.Name, p.Occupied[use.ID])}
	case p.isTaken(use):
		return &verdict.Finding{Reason: verdict.MountTaken, Message: fmt.Sprintf(
			"volume %q uses the ReadWriteOncePod access mode and is already in use by another pod", use.PV.Name)}
	}
	return p.checkAttached(use)
}

// isTaken reports whether another pod has a volume that only one pod may have (5.3).
func (p *plan) isTaken(use Use) bool {
	if !slices.Contains(use.PV.Spec.AccessModes, corev1.ReadWriteOncePod) {
		return false
	}
	if slices.ContainsFunc(p.Record.Publications, func(o Publication) bool { return o.Pod != use.ID.Pod }) {
		return true
	}
	// Of several pods that want it, the oldest gets it.
	return slices.ContainsFunc(p.Uses, func(o Use) bool { return o.ID.Pod != use.ID.Pod && isOlder(o.Pod, use.Pod) })
}

func isOlder(a, b *corev1.Pod) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.UID < b.UID
}

// NeedsAttach reports whether volumes of the driver are attached before they are mounted. Without a
// CSIDriver object they are.
func NeedsAttach(info *storagev1.CSIDriver) bool {
	return info == nil || info.Spec.AttachRequired == nil || *info.Spec.AttachRequired
}

func requiresRepublish(info *storagev1.CSIDriver) bool {
	return info != nil && info.Spec.RequiresRepublish != nil && *info.Spec.RequiresRepublish
}

// checkAttached is the contract with the attach-detach controller (4.7, 5.3): the node reports the
// volume in use, then a version of the node lists it as attached, then the VolumeAttachment has the
// attacher's answer.
func (p *plan) checkAttached(use Use) *verdict.Finding {
	finding := func(format string, args ...any) *verdict.Finding {
		return &verdict.Finding{Reason: verdict.MountAttachAwaited, Message: fmt.Sprintf(format, args...)}
	}
	va := p.Attachment
	switch {
	case !NeedsAttach(p.Info):
		return nil
	case !p.Node.Reported:
		return finding("volume %q: status.volumesInUse of node %s does not have it yet", use.PV.Name, p.Node.Name)
	case !p.Node.Attached:
		return finding(
			"volume %q is not yet in status.volumesAttached of node %s; the attach-detach controller puts it there",
			use.PV.Name, p.Node.Name,
		)
	case va == nil:
		return finding("volume %q: there is no VolumeAttachment for node %s", use.PV.Name, p.Node.Name)
	case va.Status.AttachError != nil:
		return finding("volume %q is not attached: %s", use.PV.Name, va.Status.AttachError.Message)
	case !va.Status.Attached:
		return finding("volume %q: VolumeAttachment %s is not attached yet", use.PV.Name, va.Name)
	case va.DeletionTimestamp != nil:
		return finding("volume %q: VolumeAttachment %s is being deleted", use.PV.Name, va.Name)
	}
	return nil
}

// verdict puts the steps in the order of their failed attempts, unless something must be read before.
// Devices are released after all publications.
func (p *plan) verdict() Verdict {
	if len(p.reads) > 0 {
		return verdict.MustRead[Action](p.reads...)
	}
	slices.SortStableFunc(p.steps, func(a, b step) int { return p.Failed[a.of] - p.Failed[b.of] })
	var actions []Action
	for _, s := range p.steps {
		actions = append(actions, s.actions...)
	}
	actions = append(actions, p.last...)
	then := p.then()
	f := then.Because()
	switch {
	case len(p.steps) > 0:
		f = verdict.Because(p.steps[0].reason, "%s", p.steps[0].message)
	case len(p.last) > 0:
		f = verdict.Because(verdict.Unstaging, "unstaging the volume")
	}
	wanted := !p.Key.IsInline() && len(p.Uses) > 0 && NeedsAttach(p.Info)
	if wanted != p.InUse {
		actions = slices.Insert(actions, 0, Action(NoteInUse{wanted}))
	}
	return verdict.DoFirst(f, actions, then)
}

// then is the verdict when all steps are done.
func (p *plan) then() Verdict {
	switch {
	case len(p.blocked) > 0:
		return wait{Finding: p.blocked[0], Until: p.until}
	case len(p.Uses) == 0 && len(p.Holders) > 0:
		return nothing{Finding: verdict.Because(
			verdict.VolumePublished,
			"%d pod(s) keep the volume until they end, though their claim or its PersistentVolume is gone or lost",
			len(p.Holders),
		)}
	case len(p.Uses) == 0:
		return nothing{Finding: verdict.Because(
			verdict.VolumeUnmounted, "no pod on the node uses the volume, and nothing of it is left",
		)}
	}
	done := verdict.Because(verdict.VolumePublished, "the volume is published to %d pod(s)", len(p.Uses))
	if !p.until.IsZero() {
		return wait{Finding: done, Until: p.until}
	}
	return nothing{Finding: done}
}
