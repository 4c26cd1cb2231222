package publishing

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/csispec"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

const driver = "disk.example.com"

var now = time.Unix(1000, 0)

// snapshot is an attachment that nothing was done for, of a volume and a node that are there; edits
// change it.
func snapshot(edits ...func(*Snapshot)) Snapshot {
	s := Snapshot{
		Attachment: &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va"}, Spec: storagev1.VolumeAttachmentSpec{
			Attacher: driver, NodeName: "node", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv")},
		}},
		Volume: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h^1"}},
		}},
		Node: &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Spec: storagev1.CSINodeSpec{
			Drivers: []storagev1.CSINodeDriver{{Name: driver, NodeID: "i-1"}},
		}},
		Driver: Driver{Name: driver, Publishes: true},
	}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func prepared(s *Snapshot) {
	s.Volume.Finalizers = []string{names.AttacherFinalizer(driver)}
	s.Attachment.Finalizers = []string{names.AttacherFinalizer(driver)}
	s.Attachment.Annotations = map[string]string{names.AnnAttachedNodeID: "i-1", names.AnnVolumeHandle: "h^1"}
}

func attached(s *Snapshot) { prepared(s); s.Attachment.Status.Attached = true }

func deleted(s *Snapshot) { s.Attachment.DeletionTimestamp = new(metav1.NewTime(now)) }

func mismatch(s *Snapshot) { s.Mismatch = true }

// failedBefore has the last attempt with the same attachment fail; the next one is due after a while.
func failedBefore(next time.Duration) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Failed = Attempt{Count: 1, Next: now.Add(next), Inputs: Inputs(s.Attachment)}
	}
}

// marked is attached by the word of its status alone, and kept by another finalizer.
func marked(s *Snapshot) { s.Attachment.Status.Attached, s.Attachment.Finalizers = true, []string{"x"} }

func withoutVolume(s *Snapshot) { s.Volume = nil }

// inline is an attachment of a volume that a pod names in place: its spec stands in the attachment.
func inline(s *Snapshot) {
	spec := s.Volume.Spec
	s.Attachment.Spec.Source = storagev1.VolumeAttachmentSource{InlineVolumeSpec: &spec}
	s.Volume = &corev1.PersistentVolume{Spec: spec}
}

func exclusive(s *Snapshot) {
	s.Volume.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
}

// other is another VolumeAttachment of the volume on a node, with finalizers.
func other(node string, finalizers ...string) func(*Snapshot) {
	return func(s *Snapshot) {
		s.HasOthers = true
		s.Others = append(s.Others, &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "other", Finalizers: finalizers}, Spec: storagev1.VolumeAttachmentSpec{NodeName: node},
		})
	}
}

const (
	heldWords = "the volume may be attached to one node only, and VolumeAttachment other has it, or had asked for it, on node x"
	heldBy    = "MarkFailed{" + heldWords + " <nil>}"
)

func heldBefore(s *Snapshot) {
	s.Attachment.Status.AttachError = &storagev1.VolumeError{Message: heldWords}
}

// text prints a verdict as its actions.
func text(v Verdict) string {
	switch v := v.(type) {
	case do:
		var parts []string
		for _, a := range v.Actions {
			parts = append(parts, strings.TrimPrefix(fmt.Sprintf("%T%v", a, a), "publishing."))
		}
		return strings.Join(parts, " ")
	case wait:
		return "wait " + string(v.Reason)
	case refuse:
		return "refuse"
	case verdict.Read[Action]:
		var parts []string
		for _, ref := range v.Refs {
			parts = append(parts, ref.String())
		}
		return "read " + strings.Join(parts, ", ")
	}
	return "nothing"
}

func TestDecide(t *testing.T) {
	for row, tc := range map[string]struct {
		s    Snapshot
		want string
	}{
		"gone":                                  {Snapshot{}, "nothing"},
		"AT-Q2 another driver's":                {snapshot(func(s *Snapshot) { s.Attachment.Spec.Attacher = "other" }), "nothing"},
		"AT-A1..A13 the first attach":           {snapshot(), "ProtectVolume{} Prepare{i-1 h^1}"},
		"AT-A12 a later attach of the volume":   {snapshot(func(s *Snapshot) { s.Volume.Finalizers = []string{names.AttacherFinalizer(driver)} }), "Prepare{i-1 h^1}"},
		"a restart in between":                  {snapshot(prepared), "Publish{i-1}"},
		"attached":                              {snapshot(attached), "nothing"},
		"AT-L4 the driver says otherwise":       {snapshot(attached, mismatch), "Publish{i-1}"},
		"AT-T1 trivial":                         {snapshot(func(s *Snapshot) { s.Driver.Publishes = false }), "MarkAttached{map[]}"},
		"AT-A2 no volume":                       {snapshot(withoutVolume), `MarkFailed{persistentvolume "pv" not found <nil>}`},
		"AT-A3 a volume that goes":              {snapshot(func(s *Snapshot) { s.Volume.DeletionTimestamp = new(metav1.NewTime(now)) }), `MarkFailed{PersistentVolume "pv" is marked for deletion <nil>}`},
		"AT-A6 no CSI volume":                   {snapshot(func(s *Snapshot) { s.Volume.Spec.CSI = nil }), "MarkFailed{pv spec contained non-csi source that was not migrated <nil>}"},
		"AT-A7 no source":                       {snapshot(func(s *Snapshot) { s.Attachment.Spec.Source.PersistentVolumeName = nil }), "MarkFailed{neither InlineCSIVolumeSource nor PersistentVolumeName specified in VA source <nil>}"},
		"AT-A5 a volume that is not translated": {snapshot(func(s *Snapshot) { s.Volume.Spec.CSI, s.Untranslated = nil, "no" }), "MarkFailed{failed to translate in tree pv to CSI: no <nil>}"},
		"AT-A7 an inline volume":                {snapshot(inline), "Prepare{i-1 h^1}"},
		"AT-A7 an inline volume without CSI": {
			snapshot(inline, func(s *Snapshot) { s.Attachment.Spec.Source.InlineVolumeSpec.CSI = nil }),
			"MarkFailed{inline volume spec contains nil CSI source <nil>}",
		},
		"AT-D1 detach of an inline volume": {
			snapshot(inline, deleted, func(s *Snapshot) { s.Attachment.Finalizers = []string{names.AttacherFinalizer(driver)} }),
			"Unpublish{h^1 i-1} Release{}",
		},
		"AT-H1 no CSINode yet":         {snapshot(func(s *Snapshot) { s.Node = nil }), "wait AttachmentNodeAwaited"},
		"AT-H13 not registered yet":    {snapshot(func(s *Snapshot) { s.Node.Spec.Drivers = nil }), "wait AttachmentNodeAwaited"},
		"AT-H2 a node with another id": {snapshot(prepared, func(s *Snapshot) { s.Node.Spec.Drivers[0].NodeID = "i-2" }), "Publish{i-1}"},
		"AT-H16 the same error again": {snapshot(withoutVolume, func(s *Snapshot) {
			s.Attachment.Status.AttachError = &storagev1.VolumeError{Message: `persistentvolume "pv" not found`}
		}), "refuse"},
		"AT-H11 another node has it":                  {snapshot(exclusive, other("x", names.AttacherFinalizer(driver))), heldBy},
		"AT-H11 that error is there already":          {snapshot(exclusive, other("x", names.AttacherFinalizer(driver)), heldBefore), "wait AttachmentHeld"},
		"AT-H11 after a restart in between":           {snapshot(exclusive, prepared, other("x", names.AttacherFinalizer(driver))), heldBy},
		"AT-H11 the other one was not asked for":      {snapshot(exclusive, prepared, other("x")), "Publish{i-1}"},
		"AT-H11 the other one is for this node":       {snapshot(exclusive, prepared, other("node", names.AttacherFinalizer(driver))), "Publish{i-1}"},
		"AT-H11 a volume that many nodes may use":     {snapshot(prepared, other("x", names.AttacherFinalizer(driver))), "Publish{i-1}"},
		"AT-H11 not known whether another one has it": {snapshot(exclusive, prepared), "read " + RefOthers + "/pv"},
		"not due yet":                                {snapshot(failedBefore(time.Second)), "wait Attaching"},
		"AT-Q3 deleted before that":                  {snapshot(attached, failedBefore(time.Second), deleted), "Unpublish{h^1 i-1} Release{}"},
		"AT-L7 a mismatch found since":               {snapshot(attached, mismatch, failedBefore(time.Second), func(s *Snapshot) { s.MismatchDue = true }), "Publish{i-1}"},
		"a failed attempt may have seen a stale one": {snapshot(prepared, failedBefore(0)), "read " + RefLiveAttachment + "/va"},
		"and is read live":                           {snapshot(prepared, failedBefore(0), func(s *Snapshot) { s.IsLive = true }), "Publish{i-1}"},
		"nothing to do after a failed attempt":       {snapshot(attached, failedBefore(0)), "nothing"},

		"AT-D7 detach":                                {snapshot(attached, deleted), "Unpublish{h^1 i-1} Release{}"},
		"AT-D8 another finalizer is there":            {snapshot(attached, deleted, func(s *Snapshot) { s.Attachment.Finalizers = append(s.Attachment.Finalizers, "x") }), "Unpublish{h^1 i-1} Release{} MarkDetached{}"},
		"an attach that may have timed out":           {snapshot(prepared, deleted), "Unpublish{h^1 i-1} Release{}"},
		"nothing was done":                            {snapshot(deleted), "nothing"},
		"AT-H7 the volume is gone":                    {snapshot(attached, deleted, withoutVolume), "Unpublish{h^1 i-1} Release{}"},
		"AT-H2 the node was created again":            {snapshot(attached, deleted, func(s *Snapshot) { s.Node.Spec.Drivers[0].NodeID = "i-2" }), "Unpublish{h^1 i-1} Release{}"},
		"AT-D10 the node is gone":                     {snapshot(attached, deleted, func(s *Snapshot) { s.Node = nil }), "Unpublish{h^1 i-1} Release{}"},
		"AT-D4 of an attachment by upstream":          {snapshot(attached, deleted, func(s *Snapshot) { s.Attachment.Annotations = nil }), "Unpublish{h^1 i-1} Release{}"},
		"AT-L5 released, and the driver has it still": {snapshot(deleted, mismatch), "Unpublish{h^1 i-1}"},
		"AT-L5 released, and never marked so":         {snapshot(deleted, mismatch, marked), "Unpublish{h^1 i-1} MarkDetached{}"},
		"AT-H8 the driver lost the capability":        {snapshot(attached, deleted, func(s *Snapshot) { s.Driver.Publishes = false }), "Release{}"},
	} {
		if got := text(Decide(tc.s, now)); got != tc.want {
			t.Errorf("%s: %s, want %s", row, got, tc.want)
		}
	}
}

// AT-H11, AT-A12: after the finalizer is written, the volume's attachments are read again, and one that is
// gone is not published.
func TestAfterPrepare(t *testing.T) {
	for want, v := range map[string]Verdict{
		"read VolumeAttachment/va, PersistentVolume/pv":                       AfterPrepare(snapshot(), true),
		"read VolumeAttachment/va, PersistentVolume/pv, " + RefOthers + "/pv": AfterPrepare(snapshot(exclusive, other("x")), true),
		"nothing": AfterPrepare(snapshot(), false),
	} {
		if got := text(v); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// AT-H11: the runs of attachments of an exclusive volume take turns, those of others do not.
func TestTurn(t *testing.T) {
	for row, tc := range map[string]struct {
		s    Snapshot
		want string
	}{
		"exclusive":              {snapshot(exclusive), "handle h^1"},
		"exclusive and attached": {snapshot(exclusive, attached), "attachment va"},
		"exclusive and deleted":  {snapshot(exclusive, deleted), "attachment va"},
		"shared":                 {snapshot(), "attachment va"},
		"no volume":              {snapshot(withoutVolume), "attachment va"},
	} {
		if got := Turn(tc.s); got != tc.want {
			t.Errorf("%s: %q, want %q", row, got, tc.want)
		}
	}
}

// AT-A14 to AT-A16, AT-D9.
func TestAfterCalls(t *testing.T) {
	s := snapshot(prepared)
	if got := text(AfterPublish(s, map[string]string{"dev": "a"}, nil)); got != "MarkAttached{map[dev:a]}" {
		t.Error(got)
	}
	v, ok := AfterPublish(s, nil, &csispec.Failure{Code: codes.ResourceExhausted, Message: "full"}).(do)
	if !ok || *v.Actions[0].(MarkFailed).Code != 8 {
		t.Errorf("AT-G3: %v", v)
	}
	deleted(&s)
	v, ok = AfterUnpublish(s, &csispec.Failure{Code: codes.Internal, Message: "no"}).(do)
	if !ok || v.Actions[0].(MarkFailed).Code != nil {
		t.Errorf("AT-D9: %v", v)
	}
	if AfterUnpublish(s, nil) != nil {
		t.Error("a good answer has a verdict of its own")
	}
}

// AT-H3.
func TestCut(t *testing.T) {
	for _, message := range []string{"", "short", strings.Repeat("x", 1024), strings.Repeat("ä", 5000)} {
		got := Cut(message)
		if len(got) > 1024 || !utf8.ValidString(got) || len(message) <= 1024 && got != message {
			t.Errorf("%d bytes become %d", len(message), len(got))
		}
	}
}

// AT-V1, AT-V2.
func TestMayRelease(t *testing.T) {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{names.AttacherFinalizer(driver)}}}
	if MayRelease(pv, driver, 0) {
		t.Error("AT-V5: a volume that stays keeps it")
	}
	const cinder = "cinder.csi.openstack.org"
	migrated := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{names.AttacherFinalizer(cinder)}}}
	migrated.Spec.Cinder = &corev1.CinderPersistentVolumeSource{VolumeID: "h"}
	if !MayRelease(migrated, cinder, 0) || MayRelease(migrated, cinder, 1) {
		t.Error("AT-V1: an in-tree volume that is not marked keeps it exactly while it is attached")
	}
	migrated.Annotations = map[string]string{names.AnnMigratedTo: cinder}
	if MayRelease(migrated, cinder, 0) {
		t.Error("AT-V1: an in-tree volume that is marked keeps it")
	}
	pv.DeletionTimestamp = new(metav1.NewTime(now))
	if !MayRelease(pv, driver, 0) || MayRelease(pv, driver, 1) || MayRelease(pv, "other", 0) {
		t.Error("it goes exactly from a deleted volume without an attachment")
	}
}
