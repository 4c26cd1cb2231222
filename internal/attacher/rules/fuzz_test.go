package publishing

import (
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/csispec"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/fuzzing"
)

// fuzzWords are what the rules look for, and odd texts.
var fuzzWords = []string{
	"", "d", "n", "h", "pv", "ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod", "Block", "\x00", "Delete", "Released", names.AttacherFinalizer("d"),
	names.AnnAttachedNodeID, names.AnnVolumeHandle, names.AnnPublishSecret, names.FinalizerPVProtection,
}

// fuzzSnapshot is mostly about an attachment of the driver.
func fuzzSnapshot(in *fuzzing.Reader) Snapshot {
	s := Snapshot{
		Attachment: in.Attachment(), Volume: in.Volume(), Node: in.CSINode(), Untranslated: in.Text(), Mismatch: in.Seldom(),
		Driver: Driver{Name: "d", Publishes: !in.Seldom(), ReadOnly: in.Bool(), MultiWriters: in.Bool(), DefaultFSType: in.Text()},
		Failed: Attempt{Next: time.Unix(int64(in.Byte()), 0), Count: int(in.Byte() % 2)}, HasOthers: in.Bool(),
	}
	if va := s.Attachment; va != nil && in.Bool() {
		va.Spec.Attacher, va.Finalizers = "d", append(va.Finalizers, names.AttacherFinalizer("d"))
	}
	for range in.Byte() % 3 {
		if other := in.Attachment(); other != nil {
			s.Others = append(s.Others, other)
		}
	}
	return s
}

// FuzzPublishing: no object with missing fields makes a decision panic, each has a known reason and an
// error that fits into the status, and the driver is called for what the attachment says.
func FuzzPublishing(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x02\x04\x01\x02\x01\x0c\x00\x00\x01\x02\x01\x04\x00\x01\x00\x00\x00\x01\x03\x04\x00\x00\x00\x01\x01\x01\x03\x00"))
	f.Add([]byte("\x01\x01\x01\x01\x02\x0d\x02\x0e\x03\x01\x0c\x01\x00\x01\x02\x01\x04\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := fuzzing.New(raw, fuzzWords...)
		s := fuzzSnapshot(in)
		v := Decide(s, time.Unix(100, 0))
		fuzzing.Known(t, v)
		if s.Volume != nil {
			MayRelease(s.Volume, "d", int(in.Byte()%3))
		}
		if s.Attachment == nil {
			return
		}
		ForNew(v)
		Turn(s)
		AfterPrepare(s, true)
		Differs(s, map[string]Listed{in.Text(): {}})
		checkActions(t, s, v)
		failure := &csispec.Failure{Code: codes.Code(in.Byte() % 17), Message: in.Text()}
		fuzzing.Known(t, AfterPublish(s, in.Pairs(), nil))
		fuzzing.Known(t, AfterPublish(s, nil, failure))
		fuzzing.Known(t, AfterUnpublish(s, failure))
	})
}

func checkActions(t *testing.T, s Snapshot, v Verdict) {
	t.Helper()
	todo, _ := v.(do)
	for _, action := range todo.Actions {
		switch a := action.(type) {
		case Publish:
			if s.Attachment.DeletionTimestamp != nil || s.Volume == nil || s.Volume.Spec.CSI == nil || !s.Driver.Publishes {
				t.Errorf("published: %+v", s.Attachment)
			}
		case Unpublish:
			if s.Attachment.DeletionTimestamp == nil || a.Handle == "" || a.NodeID == "" {
				t.Errorf("unpublished %+v: %+v", a, s.Attachment)
			}
		case Release:
			if s.Attachment.DeletionTimestamp == nil {
				t.Errorf("released: %+v", s.Attachment)
			}
		case MarkFailed:
			if len(a.Message) > maxMessage || !utf8.ValidString(a.Message) && utf8.ValidString(messageOf(s.Attachment)) {
				t.Errorf("message: %q", a.Message)
			}
		default:
		}
	}
}

func messageOf(va *storagev1.VolumeAttachment) string { return va.Name + va.Spec.NodeName }
