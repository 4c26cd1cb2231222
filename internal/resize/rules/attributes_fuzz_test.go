package resizing

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/test/fuzzing"
)

// attributesFuzzWords are what the rules look for, and odd texts.
var attributesFuzzWords = []string{
	"", "d", "gold", "silver", "pv", "\x00", "True", "False",
	string(corev1.PersistentVolumeClaimModifyVolumePending), string(corev1.PersistentVolumeClaimModifyVolumeInProgress),
	string(corev1.PersistentVolumeClaimModifyVolumeInfeasible), string(corev1.PersistentVolumeClaimVolumeModifyingVolume),
	string(corev1.PersistentVolumeClaimVolumeModifyVolumeError),
}

// FuzzAttributes: no object with missing fields makes a decision panic, each has a known reason, and the
// attributesDriver gets no class of another driver.
func FuzzAttributes(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x00\x02\x02\x00\x00\x00\x00\x04\x00\x01\x02\x00\x00\x00\x00\x00\x01\x01\x00\x00\x00\x00\x01\x02\x01\x01\x01\x01\x01\x01\x01"))
	f.Add([]byte("\x01\x02\x03\x04\x00\x00\x00\x00\x03\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := fuzzing.New(raw, attributesFuzzWords...)
		s := AttributesSnapshot{
			Claim: in.Claim(), Volume: in.Volume(), Driver: AttributesDriver{Name: "d", Modifies: in.Bool()},
			Retry: AttributesRetry{Class: in.Text(), NotBefore: time.Unix(int64(in.Byte()), 0)},
		}
		if s.Claim != nil && s.Volume != nil && in.Bool() {
			s.Claim.Spec.VolumeName, s.Volume.Name = "pv", "pv"
			s.Volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}
			s.Volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: s.Claim.Namespace, Name: s.Claim.Name, UID: s.Claim.UID}
		}
		if s.Claim != nil {
			s.ClassRead = Target(s.Claim)
		}
		if s.Claim != nil && in.Bool() {
			s.Class = &storagev1.VolumeAttributesClass{
				ObjectMeta: metav1.ObjectMeta{Name: Target(s.Claim)}, DriverName: in.Text(), Parameters: in.Pairs(),
			}
		}
		v := DecideAttributes(s, time.Unix(100, 0))
		fuzzing.Known(t, v)
		todo, _ := v.(attributesDo)
		for _, action := range todo.Actions {
			AttributesApply(s.Claim, action, metav1.Unix(100, 0))
			if _, modifies := action.(Modify); !modifies {
				continue
			}
			if s.Class == nil || s.Class.DriverName != "d" || !s.Driver.Modifies || s.Volume == nil {
				t.Errorf("modified with %+v: %+v", s.Class, s.Claim)
			}
			fuzzing.Known(t, AfterModify(s, ModifyAnswer{}))
			after := AfterModify(s, ModifyAnswer{Failure: &Failure{Code: codes.Code(in.Byte() % 17), Message: in.Text()}})
			fuzzing.Known(t, after)
			next, _ := after.(attributesDo)
			for _, action := range next.Actions {
				AttributesApply(s.Claim, action, metav1.Unix(100, 0))
			}
		}
	})
}
