package life

import (
	"fmt"
	"slices"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/names"
)

// Step is what happened at a mark.
type Step string

// The steps by which phases begin and end, or that differ.
const (
	Created       Step = "created"
	Deleted       Step = "deletion asked"
	Gone          Step = "gone"
	NodeSelected  Step = "node selected"
	Bound         Step = "bound"
	Phased        Step = "phase"
	Scheduled     Step = "scheduled"
	Mounted       Step = "mounted"
	Ended         Step = "ended"
	Attached      Step = "attached"
	Errored       Step = "error"
	SizeAsked     Step = "size asked"
	SizeReached   Step = "size reached"
	ClassAsked    Step = "attributes class asked"
	ClassReached  Step = "attributes class reached"
	ConditionSet  Step = "condition"
	Finalized     Step = "finalizer"
	ContentBound  Step = "content bound"
	Cut           Step = "snapshot taken"
	Ready         Step = "ready to use"
	ProvisionerOn Step = "provisioner asked"
	Told          Step = "event"
)

// fact is one thing that the fields of an object say.
type fact struct {
	step   Step
	detail string // tells facts of one step apart
	lane   Lane
	what   string
	// undone and undoneLane describe the end of the fact; empty if that is no mark.
	undone     string
	undoneLane Lane
	at         time.Time // as far as the object itself tells
	cuts       bool      // it is a step on the path of a phase
}

func (f fact) key() string { return string(f.step) + "\x00" + f.detail }

// factsOf returns what the fields of an object say.
func factsOf(o metav1.Object) []fact {
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		return claimFacts(o)
	case *corev1.PersistentVolume:
		return volumeFacts(o)
	case *storagev1.VolumeAttachment:
		return attachmentFacts(o)
	case *corev1.Pod:
		return podFacts(o)
	case *snapshotv1.VolumeSnapshot:
		return snapshotFacts(o)
	case *snapshotv1.VolumeSnapshotContent:
		return contentFacts(o)
	}
	return nil
}

// facts collects those of one object.
type facts struct {
	of  metav1.Object
	all []fact
}

// add notes a fact on the path of a phase.
func (f *facts) add(step Step, detail string, lane Lane, at time.Time, what string, args ...any) {
	f.all = append(f.all, fact{
		step: step, detail: detail, lane: lane, what: fmt.Sprintf(what, args...), at: at, cuts: true,
	})
}

// lifetime adds the facts that every object has: its creation, its deletion, and its finalizers.
func (f *facts) lifetime(noun string, creator, deleter Lane) {
	f.add(Created, "", creator, f.of.GetCreationTimestamp().Time, "%s is created", noun)
	if at := f.of.GetDeletionTimestamp(); at != nil {
		asked := at.Time
		if seconds := f.of.GetDeletionGracePeriodSeconds(); seconds != nil && *seconds > 0 {
			// The API server adds the grace period to the time of the request.
			asked = asked.Add(-time.Duration(*seconds) * time.Second)
		}
		f.add(Deleted, "", deleter, asked, "the deletion of %s is asked for", noun)
	}
	for _, name := range f.of.GetFinalizers() {
		lane := finalizerLane(name)
		f.all = append(f.all, fact{
			step: Finalized, detail: name, lane: lane, what: "finalizer " + name + " is added",
			undone: "finalizer " + name + " is removed", undoneLane: lane,
		})
	}
}

// written returns when a manager wrote fields of a subresource last; zero if that is not known.
// With a list of managers, only theirs count.
func (f *facts) written(subresource string, managers ...string) (at time.Time) {
	for _, entry := range f.of.GetManagedFields() {
		if entry.Time != nil && entry.Subresource == subresource && entry.Time.After(at) &&
			(len(managers) == 0 || slices.Contains(managers, entry.Manager)) {
			at = entry.Time.Time
		}
	}
	return at
}

// isOfChange reports whether a condition of a claim is about an expansion or a change of
// attributes.
func isOfChange(of corev1.PersistentVolumeClaimConditionType) bool {
	return strings.Contains(string(of), "Resiz") || strings.Contains(string(of), "Modify")
}

// nounOf names an object in a sentence.
func nounOf(o metav1.Object) string {
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		return "claim " + o.Name
	case *corev1.PersistentVolume:
		return "volume " + o.Name
	case *corev1.Pod:
		return "pod " + o.Name
	case *storagev1.VolumeAttachment:
		return "the attachment to node " + o.Spec.NodeName
	case *snapshotv1.VolumeSnapshot:
		return "snapshot " + o.Name
	}
	return "content " + o.GetName()
}

func claimFacts(claim *corev1.PersistentVolumeClaim) []fact {
	f := &facts{of: claim}
	f.lifetime(nounOf(claim), User, User)
	if driver := claim.Annotations[names.AnnStorageProvisioner]; driver != "" {
		f.add(ProvisionerOn, driver, Binder, time.Time{}, "the binder asks %s for a volume", driver)
	}
	if node := claim.Annotations[names.AnnSelectedNode]; node != "" {
		f.add(NodeSelected, node, Scheduler, f.written("", schedulerName), "the scheduler selects node %s", node)
	}
	if claim.Status.Phase == corev1.ClaimBound {
		at := time.Time{}
		if len(claim.Status.Conditions) == 0 { // later writes of the status are those of expansions
			at = f.written("status")
		}
		f.add(Bound, "", Binder, at, "the claim is bound to volume %s", claim.Spec.VolumeName)
	}
	if claim.Status.Phase == corev1.ClaimLost {
		f.add(Phased, "Lost", Binder, time.Time{}, "the claim has lost its volume")
	}
	asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	f.add(SizeAsked, asked.String(), User, time.Time{}, "%s are asked for", asked.String())
	if has, ok := claim.Status.Capacity[corev1.ResourceStorage]; ok {
		f.add(SizeReached, has.String(), Resizer, time.Time{}, "the claim has %s", has.String())
	}
	if class := claim.Spec.VolumeAttributesClassName; class != nil && *class != "" {
		f.add(ClassAsked, *class, User, time.Time{}, "attributes class %s is asked for", *class)
	}
	if class := claim.Status.CurrentVolumeAttributesClassName; class != nil && *class != "" {
		f.add(ClassReached, *class, Resizer, time.Time{}, "the volume has the attributes class %s", *class)
	}
	for _, c := range claim.Status.Conditions {
		// Unused, and what others may add, is no step of a phase.
		if c.Status == corev1.ConditionTrue && isOfChange(c.Type) {
			f.add(ConditionSet, string(c.Type), Resizer, c.LastTransitionTime.Time, "condition %s is set", c.Type)
		}
	}
	return f.all
}

func volumeFacts(pv *corev1.PersistentVolume) []fact {
	f := &facts{of: pv}
	creator := User
	if pv.Annotations[names.AnnProvisionedBy] != "" {
		creator = Provisioner
	}
	f.lifetime(nounOf(pv), creator, Provisioner)
	at := time.Time{}
	if pv.Status.LastPhaseTransitionTime != nil {
		at = pv.Status.LastPhaseTransitionTime.Time
	}
	if pv.Status.Phase != "" && pv.Status.Phase != corev1.VolumePending {
		f.add(Phased, string(pv.Status.Phase), Binder, at, "the volume is %s", pv.Status.Phase)
	}
	size := pv.Spec.Capacity[corev1.ResourceStorage]
	f.add(SizeReached, size.String(), Resizer, time.Time{}, "the volume has %s", size.String())
	return f.all
}

func attachmentFacts(va *storagev1.VolumeAttachment) []fact {
	f := &facts{of: va}
	f.lifetime(nounOf(va), AttachDetach, AttachDetach)
	if va.Status.Attached {
		at := time.Time{}
		if va.DeletionTimestamp == nil {
			at = f.written("status")
		}
		f.add(Attached, "", Attacher, at, "the volume is attached to node %s", va.Spec.NodeName)
		f.all[len(f.all)-1].undone = "the volume is detached from node " + va.Spec.NodeName
		f.all[len(f.all)-1].undoneLane = Attacher
	}
	for _, e := range []*storagev1.VolumeError{va.Status.AttachError, va.Status.DetachError} {
		if e != nil {
			f.add(Errored, e.Time.UTC().String(), Attacher, e.Time.Time, "error: %s", e.Message)
		}
	}
	return f.all
}

func podFacts(pod *corev1.Pod) []fact {
	f := &facts{of: pod}
	f.lifetime(nounOf(pod), User, User)
	if pod.Spec.NodeName != "" {
		f.add(Scheduled, "", Scheduler, conditionTime(pod, corev1.PodScheduled), "the scheduler chooses node %s",
			pod.Spec.NodeName)
	}
	if explain.VolumesMounted(pod) {
		f.add(Mounted, "", Node, mountedAt(pod), "the volumes of pod %s are mounted", pod.Name)
	}
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		f.add(Ended, string(pod.Status.Phase), Node, time.Time{}, "pod %s has ended: %s", pod.Name, pod.Status.Phase)
	}
	return f.all
}

// mountedAt returns when the volumes of a pod were mounted at the latest.
func mountedAt(pod *corev1.Pod) (at time.Time) {
	note := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Status == corev1.ConditionTrue &&
			(c.Type == corev1.PodReadyToStartContainers || c.Type == names.ConditionVolumesPublished) {
			note(c.LastTransitionTime.Time)
		}
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.State.Running != nil {
			note(status.State.Running.StartedAt.Time)
		}
		if status.State.Terminated != nil {
			note(status.State.Terminated.StartedAt.Time)
		}
	}
	return at
}

func conditionTime(pod *corev1.Pod, of corev1.PodConditionType) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == of && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

func snapshotFacts(s *snapshotv1.VolumeSnapshot) []fact {
	f := &facts{of: s}
	f.lifetime(nounOf(s), User, User)
	if s.Status == nil {
		return f.all
	}
	if content := s.Status.BoundVolumeSnapshotContentName; content != nil {
		f.add(ContentBound, *content, Snapshotter, time.Time{}, "the snapshot is bound to %s", *content)
	}
	if s.Status.ReadyToUse != nil && *s.Status.ReadyToUse {
		f.add(Ready, "", Snapshotter, f.written("status"), "the snapshot is ready to use")
	}
	if s.Status.Error != nil && s.Status.Error.Message != nil && s.Status.Error.Time != nil {
		f.add(Errored, s.Status.Error.Time.UTC().String(), Snapshotter, s.Status.Error.Time.Time, "error: %s",
			*s.Status.Error.Message)
	}
	return f.all
}

func contentFacts(c *snapshotv1.VolumeSnapshotContent) []fact {
	f := &facts{of: c}
	f.lifetime(nounOf(c), Snapshotter, Snapshotter)
	if c.Status == nil {
		return f.all
	}
	if c.Status.SnapshotHandle != nil {
		at := time.Time{}
		if c.Status.CreationTime != nil {
			at = time.Unix(0, *c.Status.CreationTime)
		}
		f.add(Cut, *c.Status.SnapshotHandle, Driver, at, "the driver has taken the snapshot")
	}
	if c.Status.ReadyToUse != nil && *c.Status.ReadyToUse {
		f.add(Ready, "", Snapshotter, time.Time{}, "the driver says that the snapshot is ready to use")
	}
	return f.all
}
