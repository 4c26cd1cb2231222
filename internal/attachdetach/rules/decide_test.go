package attachment

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

const driver = "d.example.com"

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// shape is a verdict in one line: the actions without notes, then the end.
func shape(v Verdict) string {
	switch v := v.(type) {
	case nothing:
		return string(v.Reason)
	case wait:
		if v.Until.IsZero() {
			return "wait " + string(v.Reason)
		}
		return fmt.Sprintf("wait %s %s", v.Reason, v.Until.Sub(start))
	case refuse:
		return "refuse " + string(v.Reason)
	case do:
		var all []string
		for _, a := range v.Actions {
			if _, notes := a.(Note); !notes { // see TestUnwantedIsNoted
				all = append(all, step(a))
			}
		}
		if len(all) == 0 {
			return shape(v.Then)
		}
		return strings.Join(all, ", ") + "; " + shape(v.Then)
	case verdict.Read[Action]:
		return "read " + v.Refs[0].String()
	}
	return "nil"
}

func step(a Action) string {
	switch a := a.(type) {
	case Create:
		if a.Volume == "" {
			return "create inline " + a.Node
		}
		return "create " + a.Node
	case Confirm:
		return "confirm " + a.Attachment.Spec.NodeName
	case List:
		if a.Then.Event != "" {
			return "list " + a.Node + ", " + step(a.Then)
		}
		return "list " + a.Node
	case Unlist:
		out := "unlist " + a.Node
		if a.Attachment != nil {
			out += " and delete"
		}
		return strings.TrimSpace(out + " " + string(a.Force))
	case Delete:
		return strings.TrimSpace("delete " + a.Attachment.Spec.NodeName + " " + string(a.Force))
	case Note:
		return "note"
	case Requeue:
		return "requeue"
	case Tell:
		return "tell " + string(a.Event)
	}
	return "?"
}

type edit func(*Snapshot)

// world is a bound exclusive volume, nodes a and b that are healthy, and no pod.
func world(edits ...edit) Snapshot {
	s := Snapshot{
		Key: Key{Driver: driver, Handle: "h"}, Rules: Rules{ForceAfter: 6 * time.Minute},
		Volumes: []*corev1.PersistentVolume{{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:    &corev1.ObjectReference{Namespace: "ns", Name: "c"},
		}}},
		Nodes:     map[string]*corev1.Node{"a": node("a"), "b": node("b")},
		Confirmed: map[types.UID]bool{"va-a": true, "va-b": true},
	}
	for _, e := range edits {
		e(&s)
	}
	return s
}

func node(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{names.AnnManagedAttach: "true"}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

func pod(on string, edits ...func(*corev1.Pod)) edit {
	return func(s *Snapshot) {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("p%d", len(s.Pods)), CreationTimestamp: metav1.NewTime(start.Add(time.Duration(len(s.Pods)) * time.Second))},
			Spec:       corev1.PodSpec{NodeName: on},
		}
		for _, e := range edits {
			e(p)
		}
		s.Pods = append(s.Pods, p)
	}
}

func deleting(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: start} }

func running(p *corev1.Pod) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func va(on string, edits ...func(*storagev1.VolumeAttachment)) edit {
	return func(s *Snapshot) {
		v := &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: names.AttachmentName("h", driver, on), UID: types.UID("va-" + on)},
			Spec:       storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: on},
		}
		for _, e := range edits {
			e(v)
		}
		s.Attachments = append(s.Attachments, v)
	}
}

func attached(v *storagev1.VolumeAttachment)   { v.Status.Attached = true }
func vaDeleting(v *storagev1.VolumeAttachment) { v.DeletionTimestamp = &metav1.Time{Time: start} }
func vaFailed(v *storagev1.VolumeAttachment) {
	v.Status.AttachError = &storagev1.VolumeError{Message: "no"}
}
func unconfirmed(s *Snapshot) { s.Confirmed = nil }

// orphaned has a VolumeAttachment before it name a volume that the API server does not have.
func orphaned(on string) edit {
	return func(s *Snapshot) {
		former(on)(s)
		s.Live = map[string]*corev1.PersistentVolume{"former": nil}
	}
}

// former has a VolumeAttachment before it name another volume.
func former(on string) edit {
	return func(s *Snapshot) {
		for _, va := range s.Attachments {
			if va.Spec.NodeName == on {
				named("former")(va)
			}
		}
	}
}

// live has the API server answer with a volume that has the handle.
func live(handle string) edit {
	return func(s *Snapshot) {
		s.Live = map[string]*corev1.PersistentVolume{"former": {Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle},
			},
		}}}
	}
}

func named(volume string) func(*storagev1.VolumeAttachment) {
	return func(v *storagev1.VolumeAttachment) { v.Spec.Source.PersistentVolumeName = &volume }
}

// uses has a pod on the node that uses the claim.
func uses(on, claim string) edit {
	return pod(on, func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}}
	})
}

// bound has the PersistentVolume bound; another one than "pv" has the same handle, and a claim of
// its own name.
func bound(volume string) edit {
	return func(s *Snapshot) {
		s.Bound = map[string]bool{volume: true}
		if volume != "pv" {
			other := s.Volumes[0].DeepCopy()
			other.Name, other.Spec.ClaimRef.Name = volume, volume
			s.Volumes = append(s.Volumes, other)
		}
	}
}

func terminating(volume string) edit {
	return func(s *Snapshot) {
		for _, pv := range s.Volumes {
			if pv.Name == volume {
				pv.DeletionTimestamp = &metav1.Time{Time: start}
			}
		}
	}
}

func renamed(v *storagev1.VolumeAttachment) { v.Name = "by-hand" }

// inline has pods name the volume in place, and no PersistentVolume.
func inline(s *Snapshot) {
	s.Inline = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "inline"}, Spec: s.Volumes[0].Spec}
	s.Volumes = nil
}

func listed(on string) edit {
	return func(s *Snapshot) {
		s.Nodes[on].Status.VolumesAttached = []corev1.AttachedVolume{{Name: s.Key.UniqueName()}}
	}
}

func unknown(node string) edit {
	return func(s *Snapshot) { delete(s.Nodes, node) }
}

func listing(on string) edit {
	return func(s *Snapshot) { s.Listing = map[string]bool{on: true} }
}

func unlisting(on string) edit {
	return func(s *Snapshot) { s.Unlisting = map[string]bool{on: true} }
}

func inUse(on string) edit {
	return func(s *Snapshot) { s.Nodes[on].Status.VolumesInUse = []corev1.UniqueVolumeName{s.Key.UniqueName()} }
}

func notReady(on string) edit { return func(s *Snapshot) { s.Nodes[on].Status.Conditions = nil } }
func noNode(on string) edit   { return func(s *Snapshot) { delete(s.Nodes, on) } }
func unmanaged(on string) edit {
	return func(s *Snapshot) { s.Nodes[on].Annotations = nil }
}

func tainted(on string) edit {
	return func(s *Snapshot) { s.Nodes[on].Spec.Taints = []corev1.Taint{{Key: names.TaintOutOfService}} }
}

func unwanted(on string, since time.Duration) edit {
	return func(s *Snapshot) { s.Unwanted = map[string]time.Time{on: start.Add(-since)} }
}

func modes(m ...corev1.PersistentVolumeAccessMode) edit {
	return func(s *Snapshot) { s.Volumes[0].Spec.AccessModes = m }
}

func required(yes bool) edit {
	return func(s *Snapshot) {
		s.Driver = &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{AttachRequired: new(yes)}}
	}
}
func noVolume(s *Snapshot) { s.Volumes = nil }
func never(s *Snapshot)    { s.Rules.ForceAfter = 0 }

const (
	rwx = corev1.ReadWriteMany
	rox = corev1.ReadOnlyMany
	rwo = corev1.ReadWriteOnce
)

func TestDecide(t *testing.T) {
	const create, done, unused = "create a; wait AttachUnderWay", "AttachSucceeded", "AttachNotNeeded"
	const conflict = "tell FailedAttachVolume; wait MultiAttach 5m0s"
	for _, tc := range []struct {
		row  string
		s    Snapshot
		want string
	}{
		{"4.2 a pod on a node", world(pod("a")), create},
		{"4.2 a pod without a node", world(pod("")), unused},
		{"4.2 a pod that succeeded", world(pod("a", phase(corev1.PodSucceeded))), unused},
		{"4.2 a pod that failed", world(pod("a", phase(corev1.PodFailed))), unused},
		{"4.2 a pod being deleted that runs", world(pod("a", deleting, running)), create},
		{"4.2 a pod being deleted that has stopped", world(pod("a", deleting)), unused},
		{"4.2 an unmanaged node", world(pod("a"), unmanaged("a")), unused},
		{"4.2 a node that does not exist", world(pod("a"), noNode("a")), unused},
		{"4.2 attachRequired true", world(pod("a"), required(true)), create},
		{"4.2 attachRequired false", world(pod("a"), required(false)), unused},
		{"4.2 no bound volume yet", world(pod("a"), noVolume), unused},
		{"4.3 uncertain and wanted", world(pod("a"), va("a")), "wait AttachUnderWay"},
		{"4.4 attached, not listed", world(pod("a"), va("a", attached)), "list a, tell SuccessfulAttachVolume; " + done},
		{"4.4 attached and listed", world(pod("a"), va("a", attached), listed("a")), done},
		{"4.6 attached, a write is to list it", world(pod("a"), va("a", attached), listing("a")), "wait AttachUnderWay"},
		{"4.6 unused, a write is to list it", world(va("a", attached), listing("a")), "unlist a and delete; wait AttachUnderWay"},
		{"4.6 unused, a write is to unlist it", world(va("a", attached), listed("a"), unlisting("a")), "wait AttachUnderWay"},
		{"4.6 unused, a write is to unlist it, and the node is gone", world(va("a", attached), unlisting("a"), unknown("a")), "wait AttachUnderWay"},
		{"4.6 wanted again, a write is to unlist it", world(pod("a"), va("a", attached), listed("a"), unlisting("a")), "list a, tell SuccessfulAttachVolume; AttachSucceeded"},
		{"4.4 exclusive, a write unlists it elsewhere", world(pod("a"), listed("b"), unlisting("b")), "tell FailedAttachVolume; wait MultiAttach 5m0s"},
		{"4.4 exclusive, a write unlists it where nothing else names it", world(pod("a"), unlisting("b"), unknown("b")), "tell FailedAttachVolume; wait MultiAttach 5m0s"},
		{"R11 replaced, a write is to unlist it", world(pod("a"), va("a", attached), listed("a"), unlisting("a"), orphaned("a")), "wait AttachUnderWay"},
		{"4.4 exclusive, a write lists it elsewhere", world(pod("a"), listing("b"), inUse("b")), "tell FailedAttachVolume; wait DetachAwaitsUnmount 5m0s"},
		{"4.4 exclusive, a write lists it where nothing else names it", world(pod("a"), listing("b"), unknown("b")), "unlist b, tell FailedAttachVolume; wait MultiAttach 5m0s"},
		{"4.4 attach error", world(pod("a"), va("a", vaFailed)), "tell FailedAttachVolume; wait AttachRetried"},
		{"4.4 attached in spite of a former error", world(pod("a"), va("a", attached, vaFailed), listed("a")), done},
		{"4.4 being deleted and wanted", world(pod("a"), va("a", attached, vaDeleting)), "wait AttachUnderWay"},
		{"4.4 unused and listed", world(va("a", attached), listed("a")), "unlist a and delete; wait AttachUnderWay"},
		{"4.4 unused, not listed", world(va("a", attached)), "delete a; wait AttachUnderWay"},
		{"4.4 unused, in use", world(va("a", attached), listed("a"), inUse("a")), "wait DetachAwaitsUnmount"},
		{"4.4 unused, in use, not listed", world(va("a", attached), inUse("a")), "wait DetachAwaitsUnmount"},
		{"4.4 detach under way", world(va("a", vaDeleting)), "wait AttachUnderWay"},
		{"4.4 in use on an unhealthy node", world(va("a", attached), inUse("a"), notReady("a")), "wait DetachAwaitsUnmount 6m0s"},
		{"4.4 before the timer", world(va("a"), inUse("a"), notReady("a"), unwanted("a", 6*time.Minute-1)), "wait DetachAwaitsUnmount 1ns"},
		{"4.4 after the timer", world(va("a"), inUse("a"), notReady("a"), unwanted("a", 6*time.Minute)), "delete a timeout; wait AttachUnderWay"},
		{"4.4 after the timer, listed", world(va("a"), listed("a"), inUse("a"), notReady("a"), unwanted("a", time.Hour)), "unlist a and delete timeout; wait AttachUnderWay"},
		{"4.4 after the timer on a healthy node", world(va("a"), inUse("a"), unwanted("a", time.Hour)), "wait DetachAwaitsUnmount"},
		{"4.4 the timer is off", world(va("a"), inUse("a"), notReady("a"), unwanted("a", time.Hour), never), "wait DetachAwaitsUnmount"},
		{"4.4 after the timer, unmounted", world(va("a"), notReady("a"), unwanted("a", time.Hour)), "delete a; wait AttachUnderWay"},
		{"4.4 out of service", world(va("a"), listed("a"), inUse("a"), notReady("a"), tainted("a")), "unlist a and delete out-of-service; wait AttachUnderWay"},
		{"4.7 the node is deleted", world(va("a", attached), noNode("a")), "delete a; wait AttachUnderWay"},
		{"4.9 named in place", world(inline, pod("a")), "create inline a; wait AttachUnderWay"},
		{"4.9 named in place, attached", world(inline, pod("a"), va("a", attached)), "list a, tell SuccessfulAttachVolume; " + done},
		{"4.9 named in place, attached elsewhere", world(inline, pod("a"), pod("b"), va("b", attached), listed("b")), conflict},
		{"4.9 named in place, no pod any more", world(inline, va("a", attached)), "delete a; wait AttachUnderWay"},
		{"4.4 exclusive, attached elsewhere", world(pod("a"), pod("b"), va("b", attached), listed("b")), conflict},
		{"4.4 exclusive, uncertain elsewhere", world(pod("a"), pod("b"), va("b")), "tell FailedAttachVolume; wait AttachUnderWay 5m0s"},
		{"4.4 exclusive, being detached elsewhere", world(pod("a"), va("b", vaDeleting)), "tell FailedAttachVolume; wait AttachUnderWay 5m0s"},
		{"4.4 exclusive, listed elsewhere only", world(pod("a"), pod("b"), listed("b"), va("b", attached)), conflict},
		{"4.4 exclusive, unused elsewhere", world(pod("a"), va("b", attached), listed("b")), "unlist b and delete, tell FailedAttachVolume; wait AttachUnderWay 5m0s"},
		{"4.4 exclusive, in use elsewhere", world(pod("a"), va("b", attached), listed("b"), inUse("b")), "tell FailedAttachVolume; wait DetachAwaitsUnmount 5m0s"},
		{"4.4 exclusive, two nodes want it", world(pod("b"), pod("a")), "create b, tell FailedAttachVolume; wait AttachUnderWay 5m0s"},
		{"4.4 exclusive, a foreign VolumeAttachment elsewhere", world(pod("a"), va("b", attached, renamed)), "tell FailedAttachVolume; wait AttachmentForeign 5m0s"},
		{"4.4 RWX on two nodes", world(pod("a"), pod("b"), va("b", attached), listed("b"), modes(rwx)), create},
		{"4.4 ROX on two nodes", world(pod("a"), pod("b"), va("b", attached), listed("b"), modes(rox, rwo)), create},
		{"4.4 no modes at all", world(pod("a"), pod("b"), va("b", attached), listed("b"), modes()), create},
		{"4.8 RWOP is as RWO", world(pod("a"), pod("b"), va("b", attached), listed("b"), modes(corev1.ReadWriteOncePod)), conflict},
		{"4.13 R1 created, not attached", world(pod("a"), va("a")), "wait AttachUnderWay"},
		{"4.13 R2 the previous process may have sent a deletion", world(pod("a"), va("a", attached), unconfirmed), "confirm a, list a, tell SuccessfulAttachVolume; " + done},
		{"4.13 R2 unlisted, not deleted", world(va("a", attached)), "delete a; wait AttachUnderWay"},
		{"4.13 R3 wanted again while deleting", world(pod("a"), va("a", vaDeleting)), "wait AttachUnderWay"},
		{"4.13 R4 moved meanwhile", world(pod("b"), va("a", attached), listed("a")), "unlist a and delete, tell FailedAttachVolume; wait AttachUnderWay 5m0s"},
		{"4.13 R5 the volume is gone", world(va("a", attached), listed("a"), noVolume), "unlist a and delete; wait AttachUnderWay"},
		{"R11 its volume is gone, another has the handle: not attached", world(pod("a"), va("a", vaFailed), orphaned("a")), "delete a; wait AttachUnderWay"},
		{"R11 a kubelet reports in use what it waits for", world(pod("a"), va("a", vaFailed), orphaned("a"), inUse("a")), "delete a; wait AttachUnderWay"},
		{"R11 attached, not in use", world(pod("a"), va("a", attached), orphaned("a"), listed("a")), "unlist a and delete; wait AttachUnderWay"},
		{"R11 attached and in use: it serves the pods", world(pod("a"), va("a", attached), orphaned("a"), listed("a"), inUse("a")), done},
		{"R11 its volume is in no cache", world(pod("a"), va("a", vaFailed), former("a")), "read PersistentVolume of the API server/former"},
		{"R11 and in use", world(pod("a"), va("a", attached), former("a"), listed("a"), inUse("a")), done},
		{"R11 the API server has its volume", world(pod("a"), va("a", vaFailed), former("a"), live("h")), "tell FailedAttachVolume; wait AttachRetried"},
		{"R11 with another handle", world(pod("a"), va("a", vaFailed), former("a"), live("h2")), "delete a; wait AttachUnderWay"},
		{"R11 being deleted", world(pod("a"), va("a", vaDeleting), orphaned("a")), "wait AttachUnderWay"},
		{"R11 made by a user", world(pod("a"), va("a", vaFailed, renamed), orphaned("a")), "tell FailedAttachVolume; wait AttachRetried"},
		{"R11 its volume is being deleted, the pods use another", world(uses("a", "new"), bound("new"), va("a", vaFailed, named("pv")), terminating("pv")), "delete a; wait AttachUnderWay"},
		{"R11 its volume is being deleted, and the pods use it", world(uses("a", "c"), bound("pv"), va("a", vaFailed, named("pv")), terminating("pv")), "tell FailedAttachVolume; wait AttachRetried"},
		{"R11 its volume exists, the pods use another", world(uses("a", "new"), bound("new"), va("a", attached, named("pv")), listed("a")), done},
		{"4.13 R6 the node is another one", world(pod("a"), va("a", attached)), "list a, tell SuccessfulAttachVolume; " + done},
		{"4.13 R9 attachRequired is false by now", world(pod("a"), va("a", attached), listed("a"), required(false)), "unlist a and delete; wait AttachUnderWay"},
		{"4.13 R9 and in use", world(pod("a"), va("a", attached), listed("a"), inUse("a"), required(false)), "wait DetachAwaitsUnmount"},
		{"4.13 R10 deleted by hand, wanted", world(pod("a"), listed("a")), create},
		{"4.13 R10 deleted by hand, unused", world(listed("a")), "unlist a; " + unused},
		{"an unmanaged node's kubelet detaches", world(va("a", attached), unmanaged("a")), unused},
	} {
		t.Run(tc.row, func(t *testing.T) {
			if got := shape(Decide(tc.s, start)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// 4.4 step 4: the nodes that have the volume without need are noted when they change, before all else.
func TestUnwantedIsNoted(t *testing.T) {
	for row, tc := range map[string]struct {
		s    Snapshot
		want string
	}{
		"wanted":                 {world(pod("a"), va("a", attached), listed("a")), "none"},
		"not any more":           {world(va("a", attached), listed("a")), "[a]"},
		"in use":                 {world(va("a", attached), listed("a"), inUse("a")), "[a]"},
		"listed alone":           {world(listed("b")), "[b]"},
		"noted":                  {world(va("a", attached), listed("a"), inUse("a"), unwanted("a", time.Minute)), "none"},
		"noted, and another one": {world(va("a"), va("b"), unwanted("a", time.Minute)), "[a b]"},
		"noted, and wanted":      {world(pod("a"), va("a", attached), listed("a"), unwanted("a", time.Minute)), "[]"},
		"noted, and gone":        {world(unwanted("a", time.Minute)), "[]"},
	} {
		got := "none"
		if d, acts := Decide(tc.s, start).(do); acts {
			if note, notes := d.Actions[0].(Note); notes {
				got = fmt.Sprint(note.Unwanted)
			}
		}
		if got != tc.want {
			t.Errorf("%s: %s is noted, want %s", row, got, tc.want)
		}
	}
}

// C6: the Node of the unlist's answer decides, and only a forced detach goes past its volumesInUse.
func TestAfterUnlist(t *testing.T) {
	s := world(va("a", attached), inUse("a"))
	used, free := s.Nodes["a"], node("a")
	for _, tc := range []struct {
		row  string
		a    Unlist
		node *corev1.Node
		want string
	}{
		{"in use by now", Unlist{Node: "a"}, used, "list a; wait DetachAwaitsUnmount"},
		{"in use, forced", Unlist{Node: "a", Force: ForcedByTimeout}, used, "nil"},
		{"not in use", Unlist{Node: "a"}, free, "nil"},
		{"the node is gone", Unlist{Node: "a"}, nil, "nil"},
	} {
		if got := shape(AfterUnlist(s, tc.a, tc.node)); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.row, got, tc.want)
		}
	}
}

// 4.3: a VolumeAttachment whose volume is gone is deleted only by the audit, and only if the name
// is ours.
func TestOrphan(t *testing.T) {
	alone := func(since time.Duration, edits ...func(*storagev1.VolumeAttachment)) Snapshot {
		s := world(va("a", edits...), former("a"), noVolume)
		s.Key, s.UnusedSince = Key{Driver: driver, Attachment: s.Attachments[0].Name}, start.Add(-since)
		s.Rules.AuditEvery = time.Minute
		return s
	}
	gone := func(s Snapshot) Snapshot { orphaned("a")(&s); return s }
	there := func(s Snapshot) Snapshot { live("h")(&s); return s }
	unseen := gone(alone(0, attached))
	unseen.UnusedSince = time.Time{}
	for row, tc := range map[string]struct {
		s    Snapshot
		want string
	}{
		"not seen":         {unseen, "wait AttachmentOrphaned"},
		"just seen":        {gone(alone(time.Minute-1, attached)), "wait AttachmentOrphaned"},
		"audited":          {alone(time.Minute, attached), "read PersistentVolume of the API server/former"},
		"audited, gone":    {gone(alone(time.Minute, attached)), "delete a; wait AttachmentOrphaned"},
		"audited, there":   {there(alone(time.Minute, attached)), "wait AttachmentOrphaned"},
		"audited, foreign": {gone(alone(time.Minute, renamed)), "wait AttachmentForeign"},
		"being deleted":    {gone(alone(time.Minute, vaDeleting)), "wait AttachUnderWay"},
		"gone":             {Snapshot{Key: Key{Attachment: "x"}}, "AttachmentGone"},
		"its handle is known": {
			Snapshot{Key: Key{Attachment: "x"}, Known: &Key{Driver: driver, Handle: "h"}}, "requeue; AttachmentOrphaned",
		},
	} {
		if got := shape(Decide(tc.s, start)); got != tc.want {
			t.Errorf("%s: got %s, want %s", row, got, tc.want)
		}
	}
}

// 4.8: pods of other namespaces are counted and not named.
func TestUsedBy(t *testing.T) {
	p := func(namespace, name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	mine := []*corev1.Pod{p("ns", "me")}
	for want, theirs := range map[string][]*corev1.Pod{
		"Volume is already exclusively attached to one node and can't be attached to another": nil,
		"Volume is already used by pod(s) x, y":                                               {p("ns", "x"), p("ns", "y")},
		"Volume is already used by 1 pod(s) in different namespaces":                          {p("other", "x")},
		"Volume is already used by pod(s) x and 1 pod(s) in different namespaces":             {p("ns", "x"), p("other", "y")},
	} {
		if got := usedBy(mine, theirs); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// R11: the new VolumeAttachment is for the volume that the pods use, and not for a released one whose
// claim had the same name, nor for one that is being deleted.
func TestWantedVolume(t *testing.T) {
	s := world(uses("a", "c"), bound("new"), terminating("pv"))
	s.Volumes[1].Spec.ClaimRef.Name = "c"
	create, ok := Decide(s, start).(do).Actions[0].(Create)
	if !ok || create.Volume != "new" {
		t.Errorf("got %+v, want a VolumeAttachment for new", create)
	}
}

func FuzzDecide(f *testing.F) {
	f.Add(uint16(0))
	f.Add(uint16(0xffff))
	f.Fuzz(func(t *testing.T, bits uint16) {
		var edits []edit
		for i, e := range []edit{
			pod("a"), pod("b", deleting), va("a"), va("b", attached), va("a", vaDeleting), listed("a"), inUse("b"), notReady("b"),
			tainted("b"), required(false), modes(rwx), noVolume, never, noNode("b"), orphaned("a"), unlisting("a"),
		} {
			if bits&(1<<i) != 0 {
				edits = append(edits, e)
			}
		}
		if v := Decide(world(edits...), start); v == nil || v.Because().Reason == "" {
			t.Errorf("no verdict for %b", bits)
		}
		if d, ok := Decide(world(edits...), start).(do); ok && d.Because().Reason == verdict.DetachForced && bits&(1<<6) == 0 {
			t.Errorf("%b: forced although the volume is not in use", bits)
		}
		checkInUse(t, world(edits...))
	})
}

// checkInUse fails if a volume that its node reports in use is detached from it without force, unless
// no kubelet can have mounted it.
func checkInUse(t *testing.T, s Snapshot) {
	t.Helper()
	d, ok := Decide(s, start).(do)
	if !ok {
		return
	}
	for _, a := range d.Actions {
		switch a := a.(type) {
		case Delete:
			on := a.Attachment.Spec.NodeName
			if isInUse(s.Nodes[on], s.Key.UniqueName()) && a.Force == NotForced && (a.Attachment.Status.Attached || s.isListed(on)) {
				t.Errorf("deletes the VolumeAttachment of a volume in use on %s", on)
			}
		case Unlist:
			if isInUse(s.Nodes[a.Node], s.Key.UniqueName()) && a.Force == NotForced {
				t.Errorf("unlists a volume in use on %s", a.Node)
			}
		default:
		}
	}
}
