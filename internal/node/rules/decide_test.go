package mounting

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/verdict"
)

var now = time.Unix(10_000, 0)

func storage(s string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(s)}
}

// use is the use of the volume "h" by a pod; edits change it.
func use(pod string, edits ...func(*Use)) Use {
	u := Use{
		Key: Key{Driver: "d", Handle: "h"}, ID: ID{Pod: types.UID(pod), Spec: "pv", Mode: Filesystem}, Name: "data",
		Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: pod, UID: types.UID(pod)}},
		PV: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
			Capacity: storage("1Gi"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h", FSType: "ext4"}},
		}},
		Claim: &corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{Capacity: storage("1Gi")}},
	}
	for _, edit := range edits {
		edit(&u)
	}
	return u
}

func block(u *Use)   { u.ID.Mode = Block }
func otherPV(u *Use) { u.ID.Spec = "pv2" }
func oncePod(u *Use) {
	u.PV.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
}
func larger(u *Use)    { u.PV.Spec.Capacity = storage("2Gi") }
func elsewhere(u *Use) { u.PV.Spec.NodeAffinity = onlyNode("other") }

func onlyNode(name string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{name}}},
	}}}}
}

// snapshot is a volume that is not on the node, of a driver that needs no attachment.
func snapshot(edits ...func(*Snapshot)) Snapshot {
	s := Snapshot{
		Key: Key{Driver: "d", Handle: "h"}, Node: Node{Name: "n"}, Driver: &Driver{Name: "d", Stages: true, Expands: true},
		Info: &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{AttachRequired: new(false), FSGroupPolicy: new(storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)}},
	}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func wanted(uses ...Use) func(*Snapshot) { return func(s *Snapshot) { s.Uses = uses } }

func staged(s *Snapshot) {
	s.Record = s.Record.WithDevice(Device{DeviceID: DeviceID{Mode: Filesystem}, State: Certain})
}

func published(pods ...string) func(*Snapshot) {
	return func(s *Snapshot) {
		staged(s)
		for _, pod := range pods {
			s.Record = s.Record.WithPublication(Publication{ID: use(pod).ID, State: Certain, Published: true, At: now})
		}
	}
}

// found is what a restarted process finds on disk.
func found(pods ...string) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Record = s.Record.WithDevice(Device{DeviceID: DeviceID{Mode: Filesystem}})
		for _, pod := range pods {
			s.Record = s.Record.WithPublication(Publication{ID: use(pod).ID, Published: true, Found: true})
		}
	}
}

// held says that the pods want their volumes, and cannot be resolved to this one.
func held(pods ...string) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Holders = map[types.UID]bool{}
		for _, pod := range pods {
			s.Holders[types.UID(pod)] = true
		}
	}
}

// occupied says that the pod has another volume under the name of the PersistentVolume.
func occupied(pod string) func(*Snapshot) {
	return func(s *Snapshot) { s.Occupied = map[ID]Key{use(pod).ID: {Driver: "d", Handle: "former"}} }
}

// alive says whether the API server has the pod.
func alive(pod string, is bool) func(*Snapshot) {
	return func(s *Snapshot) { s.Alive = map[types.UID]bool{types.UID(pod): is} }
}

func inUse(s *Snapshot) { s.InUse = true }

func unregistered(s *Snapshot) { s.Driver = nil }
func attachable(s *Snapshot)   { s.Info.Spec.AttachRequired, s.InUse = nil, len(s.Uses) > 0 }

func attached(s *Snapshot) {
	attachable(s)
	s.Node.Reported, s.Node.Attached = true, true
	s.Attachment = &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va"}, Status: storagev1.VolumeAttachmentStatus{Attached: true}}
}

func republishes(s *Snapshot) { s.Info.Spec.RequiresRepublish = new(true) }

// text prints a verdict as its actions and what follows.
func text(v Verdict) string {
	switch v := v.(type) {
	case do:
		var parts []string
		for _, a := range v.Actions {
			parts = append(parts, actionText(a))
		}
		return strings.Join(append(parts, text(v.Then)), " ")
	case wait:
		if !v.Until.IsZero() {
			return fmt.Sprintf("wait %s %s", v.Reason, v.Until.Sub(now))
		}
		return "wait " + string(v.Reason)
	case refuse:
		return "refuse " + string(v.Reason)
	case verdict.Read[Action]:
		return "read " + v.Refs[0].String()
	}
	return string(v.Because().Reason)
}

func actionText(a Action) string {
	switch a := a.(type) {
	case NoteInUse:
		return fmt.Sprintf("inUse(%t)", a.Wanted)
	case Unpublish:
		return "unpublish(" + string(a.Pod) + " " + a.Spec + ")"
	case Unstage:
		return "unstage(" + string(a.Mode) + a.Spec + ")"
	case Stage:
		return "stage(" + a.ID.Spec + ")"
	case Publish:
		return "publish(" + string(a.ID.Pod) + " " + a.ID.Spec + ")"
	case Expand:
		return "expand(" + string(a.ID.Pod) + ")"
	case CleanDevice, CleanPublication, Tell:
	}
	return strings.TrimPrefix(strings.SplitN(fmt.Sprintf("%T", a), "{", 2)[0], "mounting.")
}

func TestDecide(t *testing.T) {
	for row, tc := range map[string]struct {
		s    Snapshot
		want string
	}{
		"5.3 the first pod":                           {snapshot(wanted(use("a"))), "stage(pv) publish(a pv) VolumePublished"},
		"5.3 staged once, published to each pod":      {snapshot(wanted(use("a"), use("b"))), "stage(pv) publish(a pv) publish(b pv) VolumePublished"},
		"5.3 a second pod":                            {snapshot(published("a"), wanted(use("a"), use("b"))), "publish(b pv) VolumePublished"},
		"5.3 nothing to do":                           {snapshot(published("a"), wanted(use("a"))), "VolumePublished"},
		"5.3 node affinity":                           {snapshot(wanted(use("a", elsewhere))), "wait MountUnfit"},
		"5.3 RWOP: another pod has it":                {snapshot(published("a"), wanted(use("a", oncePod), use("b", oncePod))), "wait MountTaken"},
		"5.3 RWOP: the older of two":                  {snapshot(wanted(use("b", oncePod), use("a", oncePod))), "stage(pv) publish(a pv) wait MountTaken"},
		"5.3 RWOP: the previous pod is not gone yet":  {snapshot(published("a"), wanted(use("b", oncePod))), "unpublish(a pv) wait MountTaken"},
		"5.4 two PVs with one handle share the stage": {snapshot(wanted(use("a"), use("b", otherPV))), "stage(pv) publish(a pv) publish(b pv2) VolumePublished"},
		"5.4 one pod, two PVs with one handle":        {snapshot(wanted(use("a"), use("a", otherPV))), "stage(pv) publish(a pv) publish(a pv2) VolumePublished"},
		"5.5 the driver is not registered":            {snapshot(wanted(use("a")), unregistered), "wait MountDriverAwaited"},
		"5.6 republish is not due":                    {snapshot(published("a"), wanted(use("a")), republishes), "wait VolumePublished 1m15s"},
		"5.6 republish":                               {snapshot(published("a"), wanted(use("a")), republishes, older), "publish(a pv) VolumePublished"},
		"5.6 lifecycle modes":                         {snapshot(wanted(use("a")), onlyEphemeral), "wait MountUnfit"},
		"5.6 inline":                                  {snapshot(onlyEphemeral, wanted(inlineUseOf("a"))), "publish(a tmp) VolumePublished"},
		"5.6 inline without CSIDriver":                {snapshot(func(s *Snapshot) { s.Info = nil }, inUse, wanted(inlineUseOf("a"))), "wait MountUnfit"},
		"5.7 block is staged by PV":                   {snapshot(wanted(use("a", block), use("b", block, otherPV))), "stage(pv) publish(a pv) stage(pv2) publish(b pv2) VolumePublished"},
		"5.8 the last pod":                            {snapshot(published("a")), "unpublish(a pv) unstage(Filesystem) VolumeUnmounted"},
		"5.8 not the last pod":                        {snapshot(published("a", "b"), wanted(use("b"))), "unpublish(a pv) VolumePublished"},
		"5.8 the device alone":                        {snapshot(staged), "unstage(Filesystem) VolumeUnmounted"},
		"5.8 the driver is not registered":            {snapshot(published("a"), unregistered), "wait MountDriverAwaited"},
		"5.8 a driver that went, a pod stays":         {snapshot(published("a", "b"), wanted(use("b")), unregistered), "wait MountDriverAwaited"},
		"nothing":                                     {snapshot(), "VolumeUnmounted"},

		"5.2 the claim is gone, the pod is not":      {snapshot(published("a"), held("a")), "VolumePublished"},
		"5.2 the same after a restart":               {snapshot(found("a"), held("a")), "VolumePublished"},
		"5.2 the same without the driver":            {snapshot(published("a"), held("a"), unregistered), "VolumePublished"},
		"5.2 the claim is gone, and one of two pods": {snapshot(published("a", "b"), held("b")), "unpublish(a pv) VolumePublished"},
		"5.2 another pod is served beside":           {snapshot(published("a"), held("a"), wanted(use("b", otherPV))), "publish(b pv2) VolumePublished"},
		"5.4: the name is still another volume's":    {snapshot(wanted(use("a")), occupied("a")), "wait MountTaken 10s"},
		"5.4: the name is so for another pod":        {snapshot(wanted(use("a"), use("b")), occupied("a")), "stage(pv) publish(b pv) wait MountTaken 10s"},
		"5.2 RWOP: the holder keeps others away":     {snapshot(published("a"), held("a"), wanted(use("b", oncePod))), "wait MountTaken"},

		"5.3 attach: not reported in use":       {snapshot(wanted(use("a")), attachable), "wait MountAttachAwaited"},
		"5.3 attach: not listed by the node":    {snapshot(wanted(use("a")), attached, func(s *Snapshot) { s.Node.Attached = false }), "wait MountAttachAwaited"},
		"5.3 attach: no VolumeAttachment":       {snapshot(wanted(use("a")), attached, func(s *Snapshot) { s.Attachment = nil }), "wait MountAttachAwaited"},
		"5.3 attach: the attacher has not":      {snapshot(wanted(use("a")), attached, func(s *Snapshot) { s.Attachment.Status.Attached = false }), "wait MountAttachAwaited"},
		"5.3 attach: is being deleted":          {snapshot(wanted(use("a")), attached, func(s *Snapshot) { s.Attachment.DeletionTimestamp = new(metav1.NewTime(now)) }), "wait MountAttachAwaited"},
		"5.3 attached":                          {snapshot(wanted(use("a")), attached), "stage(pv) publish(a pv) VolumePublished"},
		"5.3 attach is needed without a driver": {snapshot(wanted(use("a")), inUse, func(s *Snapshot) { s.Info = nil }), "wait MountAttachAwaited"},
		"4.7 mounted stays mounted, unlisted":   {snapshot(published("a"), wanted(use("a")), attachable), "VolumePublished"},
		"4.7 released whatever the node lists":  {snapshot(published("a"), attachable), "unpublish(a pv) unstage(Filesystem) VolumeUnmounted"},

		"5.9 at the mount":                   {snapshot(wanted(use("a", larger))), "stage(pv) publish(a pv) expand(a) VolumePublished"},
		"5.9 online":                         {snapshot(published("a"), wanted(use("a", larger))), "expand(a) VolumePublished"},
		"5.9 the driver does not expand":     {snapshot(published("a"), wanted(use("a", larger)), func(s *Snapshot) { s.Driver.Expands = false }), "VolumePublished"},
		"5.9 read-only":                      {snapshot(published("a"), wanted(use("a", larger, func(u *Use) { u.ReadOnly = true }))), "VolumePublished"},
		"5.9 infeasible":                     {snapshot(published("a"), wanted(use("a", larger, infeasible))), "VolumePublished"},
		"5.9 only unused":                    {snapshot(published("a"), wanted(use("a", larger)), refused), "VolumePublished"},
		"5.9 done, the status is behind":     {snapshot(published("a"), wanted(use("a", larger)), expandedTo(2<<30)), "VolumePublished"},
		"5.9 RWX: another node was first":    {snapshot(published("a"), wanted(use("a", larger, statusOf("2Gi"))), expandedTo(1<<30)), "expand(a) VolumePublished"},
		"ND-6 RWX: no expansion by the node": {snapshot(published("a"), wanted(use("a", larger, statusOf("2Gi"), notRequired)), expandedTo(1<<30)), "VolumePublished"},

		"5.10 a pod that is wanted is published again": {snapshot(found("a"), wanted(use("a"))), "stage(pv) publish(a pv) VolumePublished"},
		"5.10 a pod that the cache does not have":      {snapshot(found("a")), "read Pod of the API server/a"},
		"5.10 a pod that is gone":                      {snapshot(found("a"), alive("a", false)), "unpublish(a pv) unstage(Filesystem) VolumeUnmounted"},
		"5.10 a pod that the API server has":           {snapshot(found("a"), alive("a", true)), "wait MountPodSeen 10s"},
		"5.10 without the driver":                      {snapshot(found("a"), unregistered), "wait MountDriverAwaited"},

		"5.13 wanted, attached before it is mounted": {snapshot(wanted(use("a")), attachable, func(s *Snapshot) { s.InUse = false }), "inUse(true) wait MountAttachAwaited"},
		"5.13 noted, and wanted no more":             {snapshot(published("a"), attachable, inUse), "inUse(false) unpublish(a pv) unstage(Filesystem) VolumeUnmounted"},
		"5.13 noted, and not attached any more":      {snapshot(published("a"), wanted(use("a")), inUse), "inUse(false) VolumePublished"},
		"steps that failed less often go first": {snapshot(published("a"), wanted(use("b"), use("c")), func(s *Snapshot) {
			s.Failed = map[any]int{use("a").ID: 2, use("b").ID: 1}
		}), "publish(c pv) publish(b pv) unpublish(a pv) VolumePublished"},
	} {
		if got := text(Decide(tc.s, now)); got != tc.want {
			t.Errorf("%s:\n  %s, want\n  %s", row, got, tc.want)
		}
	}
}

func older(s *Snapshot) {
	for i := range s.Record.Publications {
		s.Record.Publications[i].At = now.Add(-RepublishAfter)
	}
}

func onlyEphemeral(s *Snapshot) {
	s.Info.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral}
}

func inlineUseOf(pod string) Use {
	u := use(pod)
	return inlineUse(u.Pod, &corev1.Volume{Name: "tmp", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d"}}})
}

func infeasible(u *Use) {
	u.Claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
		corev1.ResourceStorage: corev1.PersistentVolumeClaimNodeResizeInfeasible,
	}
}

func notRequired(u *Use) {
	u.Claim.Annotations = map[string]string{"volume.kubernetes.io/node-expansion-not-required": "true"}
}

func statusOf(s string) func(*Use) { return func(u *Use) { u.Claim.Status.Capacity = storage(s) } }

func refused(s *Snapshot) {
	s.Record = s.Record.WithDevice(Device{DeviceID: DeviceID{Mode: Filesystem}, State: Certain, Refused: 2 << 30})
}

func expandedTo(bytes int64) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Record = s.Record.WithDevice(Device{DeviceID: DeviceID{Mode: Filesystem}, State: Certain, Bytes: bytes})
	}
}

// 5.5, 5.6, 5.9: what follows a call that failed.
func TestAfter(t *testing.T) {
	final, uncertain := &Failure{Code: codes.Internal}, &Failure{Code: codes.DeadlineExceeded}
	exhausted, unsent := &Failure{Code: codes.ResourceExhausted}, &Failure{NoAnswer: true}
	before := Publication{Published: true}
	for row, tc := range map[string]struct {
		v    Verdict
		want string
	}{
		"5.5 success":                  {AfterStage(snapshot(), use("a"), nil), ""},
		"5.5 final":                    {AfterStage(snapshot(), use("a"), final), "CleanDevice Tell refuse StageFailed"},
		"5.5 final, staged before":     {AfterStage(snapshot(staged), use("a"), final), "Tell refuse StageFailed"},
		"5.5 uncertain":                {AfterStage(snapshot(), use("a"), uncertain), "Tell refuse StageFailed"},
		"5.5 uncertain, exhausted":     {AfterStage(snapshot(), use("a"), exhausted), "Tell refuse StageFailed"},
		"5.5 no secret":                {AfterStage(snapshot(), use("a"), unsent), "Tell refuse StageFailed"},
		"5.6 success":                  {AfterPublish(use("a"), Publication{}, nil), ""},
		"5.6 final":                    {AfterPublish(use("a"), Publication{}, final), "CleanPublication Tell refuse PublishFailed"},
		"5.6 final, of a repetition":   {AfterPublish(use("a"), before, final), "Tell refuse PublishFailed"},
		"5.6 uncertain":                {AfterPublish(use("a"), Publication{}, uncertain), "Tell refuse PublishFailed"},
		"5.8 unpublish":                {AfterUnpublish(before, final), "refuse UnpublishFailed"},
		"5.8 unstage":                  {AfterUnstage(snapshot(), uncertain), "refuse UnstageFailed"},
		"5.9 expand":                   {AfterExpand(use("a"), uncertain), "Tell refuse NodeExpandFailed"},
		"5.9 expand, infeasible":       {AfterExpand(use("a"), &Failure{Code: codes.OutOfRange}), "Tell wait NodeExpandFailed"},
		"5.9 expand, only offline":     {AfterExpand(use("a"), &Failure{Code: codes.FailedPrecondition}), "Tell wait NodeExpandFailed"},
		"5.9 the code without a call":  {AfterExpand(use("a"), &Failure{NoAnswer: true, Code: codes.OutOfRange}), "Tell refuse NodeExpandFailed"},
		"5.7 final, of a block volume": {AfterPublish(use("a", block), Publication{}, final), "Tell refuse PublishFailed"},
	} {
		got := ""
		if tc.v != nil {
			got = text(tc.v)
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", row, got, tc.want)
		}
	}
}

// 5.4: the folders of a filesystem are by pod and name of the PersistentVolume, those of a raw block
// volume by the name.
func TestOccupies(t *testing.T) {
	fs, raw := use("a").ID, use("a", block).ID
	with := func(id ID) Record { return Record{}.WithPublication(Publication{ID: id}) }
	for row, tc := range map[string]struct {
		record Record
		id     ID
		want   bool
	}{
		"nothing":                        {Record{}, fs, false},
		"the same pod and name":          {with(fs), fs, true},
		"another pod":                    {with(use("b").ID), fs, false},
		"another name":                   {with(use("a", otherPV).ID), fs, false},
		"a device of a filesystem":       {Record{}.WithDevice(Device{DeviceID: fs.Device()}), fs, false},
		"raw block, another pod":         {with(use("b", block).ID), raw, true},
		"raw block, a device":            {Record{}.WithDevice(Device{DeviceID: raw.Device()}), raw, true},
		"raw block, another name":        {with(use("a", block, otherPV).ID), raw, false},
		"raw block, beside a filesystem": {with(fs), raw, false},
		"a filesystem, beside raw block": {with(raw), fs, false},
	} {
		if got := tc.record.Occupies(tc.id); got != tc.want {
			t.Errorf("%s: %t", row, got)
		}
	}
}
