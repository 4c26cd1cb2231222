package publishing

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/core/names"
)

const driver, finalizer = "d.example.com", "external-attacher/d-example-com"

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func shape(v Verdict) string {
	switch v := v.(type) {
	case nothing:
		return string(v.Reason)
	case wait:
		return "wait " + string(v.Reason)
	case refuse:
		return "refuse " + string(v.Reason) + ": " + v.Message
	case do:
		var all []string
		for _, a := range v.Actions {
			all = append(all, step(a))
		}
		out := strings.Join(all, ", ")
		if v.Then != nil {
			out += "; " + shape(v.Then)
		}
		return out
	}
	return "nil"
}

func step(a Action) string {
	switch a := a.(type) {
	case Reserve:
		return "reserve"
	case AddVolumeFinalizer:
		return "protect"
	case Prepare:
		return "prepare " + a.Annotations[names.AnnAttachedNodeID]
	case Publish:
		return strings.TrimSpace(fmt.Sprintf("publish %s to %s %s", a.Request.GetVolumeId(), a.Request.GetNodeId(), a.Secret.Name))
	case Unpublish:
		return strings.TrimSpace(fmt.Sprintf("unpublish %s from %s %s", a.Request.GetVolumeId(), a.Request.GetNodeId(), a.Secret.Name))
	case MarkAttached:
		return "attached"
	case MarkDetached:
		return "detached"
	case RemoveFinalizer:
		return "release"
	case SaveError:
		if a.Code != nil {
			return fmt.Sprintf("save %d", *a.Code)
		}
		return "save"
	}
	return "?"
}

type edit func(*Snapshot)

// world is a VolumeAttachment whose objects are all there and have no finalizer yet.
func world(edits ...edit) Snapshot {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: driver, VolumeHandle: "h",
		}},
	}}
	s := Snapshot{
		Driver: Driver{Name: driver, Controller: map[csi.ControllerServiceCapability_RPC_Type]bool{
			csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME: true,
		}},
		Attachment: &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "va", UID: "m", CreationTimestamp: metav1.NewTime(start.Add(-time.Hour))},
			Spec:       storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pv")}},
		},
		Volume: pv, Spec: &pv.Spec,
		Node: &storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driver, NodeID: "id"}}}},
	}
	for _, e := range edits {
		e(&s)
	}
	return s
}

func can(c csi.ControllerServiceCapability_RPC_Type) edit {
	return func(s *Snapshot) { s.Driver.Controller[c] = true }
}
func trivialDriver(s *Snapshot) { s.Driver.Controller = nil }
func foreign(s *Snapshot)       { s.Attachment.Spec.Attacher = "other" }
func gone(s *Snapshot)          { s.Attachment = nil }
func begun(s *Snapshot) {
	s.Attachment.Finalizers = append(s.Attachment.Finalizers, finalizer)
	s.Attachment.Annotations = map[string]string{names.AnnAttachedNodeID: "id", names.AnnVolumeHandle: "h"}
	s.Volume.Finalizers = []string{finalizer}
}
func otherFinalizer(s *Snapshot) {
	s.Attachment.Finalizers = append(s.Attachment.Finalizers, "other")
}
func attached(s *Snapshot)   { s.Attachment.Status.Attached = true }
func mismatch(s *Snapshot)   { s.Mismatched = Contradicted }
func vaDeleting(s *Snapshot) { s.Attachment.DeletionTimestamp = &metav1.Time{Time: start} }
func pvDeleting(s *Snapshot) { s.Volume.DeletionTimestamp = &metav1.Time{Time: start} }
func pvGone(s *Snapshot)     { s.Volume, s.Spec = nil, nil }
func inTree(s *Snapshot)     { s.Spec.CSI = nil }
func inline(s *Snapshot) {
	s.Attachment.Spec.Source = storagev1.VolumeAttachmentSource{InlineVolumeSpec: s.Spec}
	s.Volume = nil
}
func bothSources(s *Snapshot)  { s.Attachment.Spec.Source.InlineVolumeSpec = s.Spec }
func noSource(s *Snapshot)     { s.Attachment.Spec.Source = storagev1.VolumeAttachmentSource{} }
func untranslated(s *Snapshot) { s.Untranslated = "why" }
func nodeGone(s *Snapshot)     { s.Node = nil }
func unregisteredNode(s *Snapshot) {
	s.Node.Spec.Drivers = nil
}
func otherID(s *Snapshot) { s.Node.Spec.Drivers[0].NodeID = "new" }
func noNotes(s *Snapshot) { s.Attachment.Annotations = nil }
func young(s *Snapshot)   { s.Attachment.CreationTimestamp = metav1.NewTime(start) }
func secret(s *Snapshot) {
	s.Spec.CSI.ControllerPublishSecretRef = &corev1.SecretReference{Namespace: "ns", Name: "s"}
}
func modes(m ...corev1.PersistentVolumeAccessMode) edit {
	return func(s *Snapshot) { s.Spec.AccessModes = m }
}
func saved(message string) edit {
	return func(s *Snapshot) { s.Attachment.Status.AttachError = &storagev1.VolumeError{Message: message} }
}

func another(edits ...func(*storagev1.VolumeAttachment)) edit {
	return func(s *Snapshot) {
		va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "z", CreationTimestamp: metav1.NewTime(start)}}
		va.Spec.NodeName = "elsewhere"
		for _, e := range edits {
			e(va)
		}
		s.Others = append(s.Others, va)
	}
}
func olderVA(va *storagev1.VolumeAttachment) {
	va.CreationTimestamp = metav1.NewTime(start.Add(-2 * time.Hour))
}
func begunVA(va *storagev1.VolumeAttachment)    { va.Finalizers = []string{finalizer} }
func attachedVA(va *storagev1.VolumeAttachment) { va.Status.Attached = true }
func deletingVA(va *storagev1.VolumeAttachment) { va.DeletionTimestamp = &metav1.Time{Time: start} }

func TestDecide(t *testing.T) {
	const first = "protect; reserve, prepare id, publish h to id"
	const noNode = `csinode.storage.k8s.io "n" not found`
	refused := func(message string) string { return "save; refuse PublishInvalid: " + message }
	stuck := func(message string) string { return "save; refuse UnpublishFailed: " + message }
	for _, tc := range []struct {
		row  string
		s    Snapshot
		want string
	}{
		{"AT-Q8 gone", world(gone), "AttachmentGone"},
		{"AT-Q2 another driver's", world(foreign), "AttachmentNotOurs"},
		{"AT-A4 AT-A12 AT-A13 the first attach", world(), first},
		{"AT-A13 begun before", world(begun), "reserve, publish h to id"},
		{"AT-A12 the node id changed", world(begun, otherID), "reserve, prepare new, publish h to new"},
		{"AT-A4 RWX", world(modes(corev1.ReadWriteMany)), "protect; prepare id, publish h to id"},
		{"AT-A10 with a secret", world(secret), first + " s"},
		{"AT-Q8 attached", world(begun, attached), "AttachmentPublished"},
		{"AT-L5 attached, not published", world(begun, attached, mismatch), "reserve, publish h to id"},
		{"AT-A1", world(bothSources), refused("both InlineCSIVolumeSource and PersistentVolumeName specified in VA source")},
		{"AT-A7", world(noSource), refused("neither InlineCSIVolumeSource nor PersistentVolumeName specified in VA source")},
		{"AT-A2", world(pvGone), refused(`persistentvolume "pv" not found`)},
		{"AT-A3", world(pvDeleting), refused(`PersistentVolume "pv" is marked for deletion`)},
		{"AT-A5", world(untranslated), refused("failed to translate in tree pv to CSI: why")},
		{"AT-A6", world(inTree), refused("pv spec contained non-csi source that was not migrated")},
		{"AT-A7 inline", world(inline), "reserve, prepare id, publish h to id"},
		{"AT-A7 inline without CSI", world(inline, inTree), refused("inline volume spec contains nil CSI source")},
		{"AT-A9", world(modes(), begun), refused("unsupported AccessMode combination: []")},
		{"AT-H1 the node has just joined", world(nodeGone, young, begun), "wait PublishBlocked"},
		{"AT-A11 no CSINode", world(nodeGone, begun), refused(noNode)},
		{"AT-A11 no such driver", world(unregisteredNode, begun), refused("CSINode n does not contain driver " + driver)},
		{"AT-H16 the error is saved", world(nodeGone, begun, saved(noNode)), "refuse PublishInvalid: " + noNode},
		{"AT-H11 published elsewhere", world(another(begunVA)), "protect; wait PublishBlocked"},
		{"AT-H11 attached elsewhere, begun here", world(begun, another(begunVA, attachedVA)), "wait PublishBlocked"},
		{"AT-H11 being detached elsewhere", world(begun, another(begunVA, deletingVA)), "wait PublishBlocked"},
		{"AT-H11 not begun, an older one", world(another(olderVA)), "protect; wait PublishBlocked"},
		{"AT-H11 not begun, a younger one", world(another()), first},
		{"AT-H11 begun here only", world(begun, another(olderVA)), "reserve, publish h to id"},
		{"AT-H11 an older one without finalizer goes", world(another(olderVA, deletingVA)), first},
		{"AT-H11 RWX elsewhere", world(modes(corev1.ReadWriteMany), another(begunVA, attachedVA)), "protect; prepare id, publish h to id"},
		{"AT-D5", world(begun, attached, vaDeleting), "unpublish h from id"},
		{"AT-Q8 an attach that may have happened", world(begun, vaDeleting), "unpublish h from id"},
		{"AT-Q8 detached", world(vaDeleting), "AttachmentNotOurs"},
		{"AT-L5 deleting, published", world(vaDeleting, mismatch), "unpublish h from id"},
		{"AT-H2 the node has another id by now", world(begun, vaDeleting, otherID), "unpublish h from id"},
		{"AT-D4 the node is gone", world(begun, vaDeleting, nodeGone), "unpublish h from id"},
		{"AT-D4 no id noted", world(begun, vaDeleting, noNotes, otherID), "unpublish h from new"},
		{"AT-D4 no id at all", world(begun, vaDeleting, noNotes, nodeGone), stuck(noNode)},
		{"AT-H7 the volume is gone", world(begun, vaDeleting, pvGone), "unpublish h from id"},
		{"AT-D1 and the handle is not noted", world(begun, vaDeleting, pvGone, noNotes), stuck(`persistentvolume "pv" not found`)},
		{"AT-D1 the volume is being deleted", world(begun, vaDeleting, pvDeleting), "unpublish h from id"},
		{"AT-D3 a secret", world(begun, vaDeleting, secret), "unpublish h from id s"},
		{"AT-T1", world(trivialDriver), "attached; AttachmentPublished"},
		{"AT-T1 attached", world(trivialDriver, attached), "AttachmentPublished"},
		{"AT-T2 a finalizer from before", world(trivialDriver, begun, attached, vaDeleting), "release; AttachmentGone"},
	} {
		t.Run(tc.row, func(t *testing.T) {
			if got := shape(Decide(tc.s, start)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// AT-D7, AT-D8, AT-H15: the finalizer goes first, and the status is written only if something keeps the object.
func TestAfterUnpublish(t *testing.T) {
	for want, s := range map[string]Snapshot{
		"release; AttachmentGone":           world(begun, attached, vaDeleting),
		"release, detached; AttachmentGone": world(begun, attached, vaDeleting, otherFinalizer),
		"AttachmentGone":                    world(vaDeleting),
	} {
		if got := shape(AfterUnpublish(s)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// AT-G2, AT-A16, AT-D9: each code is saved and retried; errorCode is for attaches.
func TestAfterFailure(t *testing.T) {
	s := world(begun)
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		f := Failure{Code: code, Message: "m"}
		if got, want := shape(AfterFailure(s, Attaching, f)), fmt.Sprintf("save %d; refuse PublishFailed: m", code); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := shape(AfterFailure(s, Detaching, f)); got != "save; refuse UnpublishFailed: m" {
			t.Errorf("%s: got %s", code, got)
		}
	}
	if got := shape(AfterFailure(s, Attaching, Failure{Foreign: true, Message: "m"})); got != "save; refuse PublishFailed: m" {
		t.Errorf("not a status: got %s", got)
	}
}

// AT-A17, AT-H3: what is saved fits.
func TestSizes(t *testing.T) {
	for _, message := range []string{strings.Repeat("x", 10000), strings.Repeat("ä", 700), strings.Repeat("€", 342)} {
		cut := Cut(message)
		if len(cut) > 1024 || !utf8.ValidString(cut) || len(cut) < 1018 {
			t.Errorf("%d bytes, valid: %t", len(cut), utf8.ValidString(cut))
		}
	}
	if exact := strings.Repeat("x", 1024); Cut(exact) != exact {
		t.Error("a message that fits was cut")
	}
	if got := shape(AfterPublish(world(begun), map[string]string{"k": strings.Repeat("x", 300<<10)})); !strings.HasPrefix(got, "save; refuse PublishFailed") {
		t.Errorf("metadata of 300 KiB: %s", got)
	}
	if got := shape(AfterPublish(world(begun), nil)); got != "attached; AttachmentPublished" {
		t.Errorf("no metadata: %s", got)
	}
}

// AT-A20.
func TestAccessMode(t *testing.T) {
	const o, x, w, p = corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod
	for _, tc := range []struct {
		modes         []corev1.PersistentVolumeAccessMode
		plain, single string
	}{
		{[]corev1.PersistentVolumeAccessMode{o}, "SINGLE_NODE_WRITER", "SINGLE_NODE_MULTI_WRITER"},
		{[]corev1.PersistentVolumeAccessMode{p}, "SINGLE_NODE_WRITER", "SINGLE_NODE_SINGLE_WRITER"},
		{[]corev1.PersistentVolumeAccessMode{x}, "MULTI_NODE_READER_ONLY", "MULTI_NODE_READER_ONLY"},
		{[]corev1.PersistentVolumeAccessMode{w}, "MULTI_NODE_MULTI_WRITER", "MULTI_NODE_MULTI_WRITER"},
		{[]corev1.PersistentVolumeAccessMode{o, w, x}, "MULTI_NODE_MULTI_WRITER", "MULTI_NODE_MULTI_WRITER"},
		{[]corev1.PersistentVolumeAccessMode{o, x}, "error", "error"},
		{[]corev1.PersistentVolumeAccessMode{o, p}, "error", "error"},
		{nil, "error", "error"},
	} {
		for n, want := range []string{tc.plain, tc.single} {
			mode, err := accessMode(tc.modes, n == 1)
			got := mode.String()
			if err != nil {
				got = "error"
			}
			if got != want {
				t.Errorf("%v: got %s, want %s", tc.modes, got, want)
			}
		}
	}
}

// AT-A8, AT-A9: the capability and the flag readonly.
func TestCapability(t *testing.T) {
	s := world(begun)
	s.Spec.CSI.ReadOnly, s.Driver.DefaultFSType, s.Spec.MountOptions = true, "ext4", []string{"noatime"}
	request := publishIn(t, s)
	if request.GetReadonly() || request.GetVolumeCapability().GetMount().GetFsType() != "ext4" ||
		request.GetVolumeCapability().GetMount().GetMountFlags()[0] != "noatime" {
		t.Errorf("got %v", request)
	}
	s = world(begun, can(csi.ControllerServiceCapability_RPC_PUBLISH_READONLY))
	s.Spec.CSI.ReadOnly, s.Spec.VolumeMode = true, ptr.To(corev1.PersistentVolumeBlock)
	if request = publishIn(t, s); !request.GetReadonly() || request.GetVolumeCapability().GetBlock() == nil {
		t.Errorf("got %v", request)
	}
}

func publishIn(t *testing.T, s Snapshot) *csi.ControllerPublishVolumeRequest {
	t.Helper()
	for _, a := range Decide(s, start).(do).Actions {
		if p, ok := a.(Publish); ok {
			return p.Request
		}
	}
	t.Fatal("no call")
	return nil
}

// AT-V1, AT-V2, AT-V5.
func TestDecideVolume(t *testing.T) {
	d := Driver{Name: driver}
	for _, tc := range []struct {
		row         string
		pv          *corev1.PersistentVolume
		attachments int
		want        string
	}{
		{"gone", nil, 0, "AttachmentNotOurs"},
		{"live", world(begun).Volume, 0, "AttachmentNotOurs"},
		{"without the finalizer", world(pvDeleting).Volume, 0, "AttachmentNotOurs"},
		{"deleting, attached", world(begun, pvDeleting).Volume, 1, "wait VolumeHeldByAttacher"},
		{"deleting", world(begun, pvDeleting).Volume, 0, "release; VolumeFreedByAttacher"},
		{"rolled back", world(begun, inTree).Volume, 0, "release; VolumeFreedByAttacher"},
	} {
		if got := shape(DecideVolume(tc.pv, d, tc.attachments)); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.row, got, tc.want)
		}
	}
}
