package ui

import (
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
	keys "github.com/purser-csi/purser/internal/objects"
	protection "github.com/purser-csi/purser/internal/protection/rules"
)

// The operations that are counted.
const (
	claimsBound     = "claims bound"
	volumesCreated  = "volumes created"
	volumesDeleted  = "volumes deleted"
	volumesAttached = "volumes attached"
	volumesDetached = "volumes detached"
	podsMounted     = "volumes of pods mounted"
	snapshotsReady  = "snapshots ready"
)

var operationNames = []string{
	claimsBound, volumesCreated, volumesAttached, podsMounted, volumesDetached, volumesDeleted, snapshotsReady,
}

// ending is the end of one operation.
type ending struct {
	what   string
	object explain.Ref
	at     time.Time
	coarse bool // the object names the time, in whole seconds
}

// endedIn finds the ends of operations in the changes.
func endedIn(h *life.History) (all []ending) {
	done := map[types.UID]bool{} // objects whose end was found
	h.Each(func(c life.Change) {
		what, at := endOf(c)
		uid := c.Object.GetUID()
		if c.Deleted && what == "" {
			delete(done, uid)
		}
		if what == "" || done[uid] && !c.Deleted {
			return
		}
		done[uid] = true
		e := ending{
			what, explain.Ref{Kind: c.Kind, Namespace: c.Object.GetNamespace(), Name: c.Object.GetName()}, c.At, false,
		}
		if c.At.IsZero() || c.Existed {
			e.at, e.coarse = at, true
		}
		if !e.at.IsZero() {
			all = append(all, e)
		}
	})
	return all
}

// endOf returns the operation that has ended in a version, and the time that the object names for
// it.
func endOf(c life.Change) (what string, at time.Time) {
	if c.Deleted {
		return map[explain.Kind]string{explain.Volume: volumesDeleted, explain.Attachment: volumesDetached}[c.Kind], at
	}
	switch o := c.Object.(type) {
	case *corev1.PersistentVolumeClaim:
		if o.Status.Phase == corev1.ClaimBound {
			return claimsBound, statusWritten(o)
		}
	case *corev1.PersistentVolume:
		return volumesCreated, o.CreationTimestamp.Time
	case *storagev1.VolumeAttachment:
		if o.Status.Attached {
			return volumesAttached, at
		}
	case *corev1.Pod:
		if explain.VolumesMounted(o) && len(protection.ClaimNames(o)) > 0 {
			return podsMounted, at
		}
	case *snapshotv1.VolumeSnapshot:
		if o.Status != nil && o.Status.ReadyToUse != nil && *o.Status.ReadyToUse {
			return snapshotsReady, at
		}
	}
	return "", at
}

// statusWritten is when the status of a claim was written last; zero if a later write than that of
// the binding may have done so.
func statusWritten(claim *corev1.PersistentVolumeClaim) (at time.Time) {
	if len(claim.Status.Conditions) > 0 {
		return at
	}
	for _, entry := range claim.ManagedFields {
		if entry.Subresource == "status" && entry.Time != nil && entry.Time.After(at) {
			at = entry.Time.Time
		}
	}
	return at
}

// The texts for what the time of a claim is counted from.
const (
	sinceCreation = "the claim's creation"
	sincePod      = "the first pod's creation"
)

// starts finds the time from which on a claim can be bound.
type starts struct {
	late map[string]bool // classes that wait for the first pod
	pods map[name]time.Time
}

func newStarts(c *explain.Cluster) starts {
	s := starts{map[string]bool{}, map[name]time.Time{}}
	for _, class := range c.Classes {
		mode := class.VolumeBindingMode
		s.late[class.Name] = mode != nil && *mode == storagev1.VolumeBindingWaitForFirstConsumer
	}
	for _, pod := range c.Pods {
		for _, claim := range protection.ClaimNames(pod) {
			key := name{pod.Namespace, claim}
			if first, known := s.pods[key]; !known || pod.CreationTimestamp.Time.Before(first) {
				s.pods[key] = pod.CreationTimestamp.Time
			}
		}
	}
	return s
}

// of returns the class of a claim, and from when on it can be bound: its creation, or that of its
// first pod if the class waits for it.
func (s starts) of(claim *corev1.PersistentVolumeClaim) (class string, from time.Time, since string) {
	class, from, since = keys.ClaimClass(claim), claim.CreationTimestamp.Time, sinceCreation
	if pod, has := s.pods[name{claim.Namespace, claim.Name}]; has && s.late[class] && pod.After(from) {
		from, since = pod, sincePod
	}
	return class, from, since
}
