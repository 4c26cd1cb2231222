package resizing

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/size"
	"github.com/purser-csi/purser/test/fuzzing"
)

// fuzzWords are what the rules look for, and odd texts.
var fuzzWords = []string{
	"", "d", "c", "pv", "\x00", "True", "False", names.AnnPreResizeCapacity, names.AnnStorageResizer, "1Gi", "-1", "x",
	string(corev1.PersistentVolumeClaimControllerResizeInProgress), string(corev1.PersistentVolumeClaimControllerResizeInfeasible),
	string(corev1.PersistentVolumeClaimNodeResizePending), string(corev1.PersistentVolumeClaimNodeResizeInProgress),
	string(corev1.PersistentVolumeClaimNodeResizeInfeasible), string(corev1.PersistentVolumeClaimResizing),
	string(corev1.PersistentVolumeClaimFileSystemResizePending), string(corev1.PersistentVolumeClaimControllerResizeError),
}

// FuzzResizing: no object with missing fields and no quantity makes a decision panic, each has a known
// reason, and the driver is asked for a number of bytes that is above what the claim has.
func FuzzResizing(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x00\x02\x02\x00\x00\x00\x00\x03\x00\x00\x00\x01\x00\x02\x1e\x01\x00\x01\x1e\x00\x00\x01\x01\x0c\x00\x00\x00\x01\x00\x03"))
	f.Add([]byte("\x01\x02\x03\x04\x00\x00\x00\x00\x03\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := fuzzing.New(raw, fuzzWords...)
		s := Snapshot{
			Claim: in.Claim(), Volume: in.Volume(), Driver: Driver{Name: "d", Controller: in.Bool()},
			OfflineOnly: in.Bool(), Users: in.Texts(), AnnotateFS: in.Bool(),
			Retry: Retry{Size: in.Quantity(), NotBefore: time.Unix(int64(in.Byte()), 0)},
		}
		if s.Claim != nil && s.Volume != nil && in.Bool() {
			s.Claim.Spec.VolumeName, s.Volume.Name = "pv", "pv"
			s.Volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}
			s.Volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: s.Claim.Namespace, Name: s.Claim.Name, UID: s.Claim.UID}
		}
		v := Decide(s, time.Unix(100, 0))
		fuzzing.Known(t, v)
		if s.Claim != nil {
			Concerns(s.Claim)
		}
		todo, _ := v.(do)
		for _, action := range todo.Actions {
			Apply(s.Claim, action, metav1.Unix(100, 0))
			sent, asks := action.(Expand)
			if !asks {
				continue
			}
			bytes, problem := size.Bytes(sent.Size)
			if problem != nil || sent.Bytes != bytes || sent.Bytes <= 0 {
				t.Errorf("asked for %d bytes, %s: %+v", sent.Bytes, sent.Size.String(), s.Claim)
			}
			for _, answer := range []Answer{
				{Capacity: int64(int8(in.Byte())) << (in.Byte() % 60), OnNode: in.Bool()},
				{Capacity: sent.Bytes, OnNode: in.Bool()},
				{Failure: &Failure{Code: codes.Code(in.Byte() % 17), Message: in.Text()}},
			} {
				after := AfterExpand(s, sent, answer)
				fuzzing.Known(t, after)
				next, _ := after.(do)
				for _, action := range next.Actions {
					Apply(s.Claim, action, metav1.Unix(100, 0))
				}
			}
		}
	})
}
