package provision

import (
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	source "github.com/purser-csi/purser/internal/sources/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// can gives the driver more capabilities.
func can(all ...csi.ControllerServiceCapability_RPC_Type) func(*Snapshot) {
	return func(s *Snapshot) {
		for _, c := range all {
			s.Driver.Controller[c] = true
		}
	}
}

// cloning is a claim that clones a bound claim.
func cloning(s *Snapshot) {
	can(csi.ControllerServiceCapability_RPC_CLONE_VOLUME)(s)
	s.Claim.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: source.KindClaim, Name: "old"}
	old := s.Claim.DeepCopy()
	old.Name, old.UID, old.ResourceVersion, old.Spec.DataSource = "old", "uid of old", "5", nil
	old.Spec.VolumeName, old.Status.Phase = "pv", corev1.ClaimBound
	s.Source = source.State{Ref: source.Of(s.Claim), Claim: old, Volume: &corev1.PersistentVolume{
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef:               &corev1.ObjectReference{Namespace: old.Namespace, Name: old.Name, UID: old.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h-old"}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}}
}

// gold names a VolumeAttributesClass, which exists.
func gold(s *Snapshot) {
	can(csi.ControllerServiceCapability_RPC_MODIFY_VOLUME)(s)
	s.Claim.Spec.VolumeAttributesClassName = new("gold")
	s.Attributes = AttributesClass{Access: Readable, Class: &storagev1.VolumeAttributesClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gold"}, DriverName: driver, Parameters: map[string]string{"iops": "9"},
	}}
}

func volumeSource(id string) *csi.VolumeContentSource {
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id}}}
}

// C-82: the finalizer is on the source before the request is recorded and sent, and a repeated
// request does not need it once more.
func TestSourceIsProtectedFirst(t *testing.T) {
	s := world(cloning)
	v, ok := settled(s, time.Time{}).(do)
	if !ok || len(v.Actions) != 3 {
		t.Fatalf("%+v", settled(s, time.Time{}))
	}
	if diff := cmp.Diff(Action(ProtectSource{s.Source}), v.Actions[0]); diff != "" {
		t.Error(diff)
	}
	record, recorded := v.Actions[1].(Record)
	sent, called := v.Actions[2].(CreateVolume)
	if !recorded || !called || sent.Request.GetVolumeContentSource().GetVolume().GetVolumeId() != "h-old" {
		t.Errorf("%+v", v.Actions)
	}
	s.Pending, s.Source = &record.Entry, source.State{}
	if v := settled(s, time.Time{}).(do); len(v.Actions) != 2 {
		t.Errorf("a repeated request: %+v", v.Actions)
	}
}

// C-54, R-90 to R-93.
func TestSourcesAndAttributesAreChecked(t *testing.T) {
	lacking := func(c csi.ControllerServiceCapability_RPC_Type) func(*Snapshot) {
		return func(s *Snapshot) { delete(s.Driver.Controller, c) }
	}
	restoring := func(s *Snapshot) {
		s.Claim.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: new(names.SnapshotGroup), Kind: source.KindSnapshot, Name: "s"}
	}
	attributes := func(edit func(*AttributesClass)) func(*Snapshot) {
		return func(s *Snapshot) { gold(s); edit(&s.Attributes) }
	}
	for _, tc := range []struct {
		name string
		s    Snapshot
		want verdict.Reason
		says string
	}{
		{"C-54 no clones", world(cloning, lacking(csi.ControllerServiceCapability_RPC_CLONE_VOLUME)), verdict.DriverLacks, "CLONE_VOLUME"},
		{"C-54 no snapshots", world(restoring), verdict.DriverLacks, "CREATE_DELETE_SNAPSHOT"},
		{"R-91 no attributes", world(gold, lacking(csi.ControllerServiceCapability_RPC_MODIFY_VOLUME)), verdict.DriverLacks, "MODIFY_VOLUME"},
		{"H-38 nothing is read", world(restoring, can(csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT)), verdict.SourceMissing, "VolumeSnapshot"},
		{"R-92 not found", world(attributes(func(a *AttributesClass) { *a = AttributesClass{Access: Missing} })), verdict.CreateAttributesMissing, `"gold"`},
		{"R-92 forbidden", world(attributes(func(a *AttributesClass) { *a = AttributesClass{Access: Forbidden} })), verdict.CreateAttributesForbidden, "volumeattributesclasses"},
		{"R-92 another driver", world(attributes(func(a *AttributesClass) { a.Class.DriverName = "b" })), verdict.CreateAttributesOtherDriver, `"b"`},
		{"R-93 not served", world(attributes(func(a *AttributesClass) { *a = AttributesClass{Unserved: true} })), verdict.CreateAttributesMissing, "storage.k8s.io/v1"},
		{"R-85 a populator's", world(func(s *Snapshot) {
			s.Claim.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: new("x"), Kind: "Backup", Name: "b"}
		}), verdict.SourceForeign, "external populator"},
		{"R-90 an empty name", world(func(s *Snapshot) { s.Claim.Spec.VolumeAttributesClassName = new("") }), verdict.Provisioning, ""},
		{"R-90 the gate is off", world(gold, func(s *Snapshot) {
			s.Options.IgnoreAttributes = true
			delete(s.Driver.Controller, csi.ControllerServiceCapability_RPC_MODIFY_VOLUME)
		}), verdict.Provisioning, ""},
		{"all is well", world(cloning, gold), verdict.Provisioning, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := settled(tc.s, time.Time{})
			if got := v.Because(); got.Reason != tc.want || !strings.Contains(got.Text(), tc.says) {
				t.Errorf("%s: %s", got.Reason, got.Text())
			}
			if r, refused := v.(refuse); refused && r.Reason != verdict.DriverLacks && r.Look == 0 && tc.want != verdict.SourceMissing {
				t.Error("what is missing is not looked at before the next attempt")
			}
		})
	}
}

// H-26, C-72, P-13: what does not fit is deleted again, and the journal entry stays until it is.
func TestAnswerIsComparedWithSourceAndAttributes(t *testing.T) {
	s := world(cloning, gold)
	entry, finding := entryOf(s)
	if finding != nil {
		t.Fatal(finding)
	}
	if got := entry.Request.GetMutableParameters()["iops"]; got != "9" {
		t.Errorf("R-8: mutable parameters %v", entry.Request.GetMutableParameters())
	}
	sent := CreateVolume{Request: entry.Request, Secrets: entry.Secrets}
	other := world(cloning, gold)
	other.Attributes.Class.Parameters = map[string]string{"iops": "1"}
	none := world(cloning)
	unread := world(cloning, gold)
	unread.Attributes = AttributesClass{}
	for _, tc := range []struct {
		name    string
		s       Snapshot
		content *csi.VolumeContentSource
		fits    bool
	}{
		{"as asked", s, volumeSource("h-old"), true},
		{"C-72 nothing", s, nil, false},
		{"H-26 another volume", s, volumeSource("h-other"), false},
		{"H-26 a snapshot", s, &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: "h-old"},
		}}, false},
		{"P-13 the class has other parameters by now", other, volumeSource("h-old"), false},
		{"P-13 the claim names no class by now", none, volumeSource("h-old"), false},
		{"P-13 the class cannot be read any more", unread, volumeSource("h-old"), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, ok := AfterCreate(tc.s, sent, Answer{Volume: &csi.Volume{VolumeId: "h", ContentSource: tc.content}}).(do)
			if !ok {
				t.Fatalf("%+v", v)
			}
			write, writes := v.Actions[0].(WriteVolume)
			if writes != tc.fits {
				t.Fatalf("%s: %+v", v.Text(), v.Actions)
			}
			if writes && *write.Volume.Spec.VolumeAttributesClassName != "gold" {
				t.Error("P-13: the PersistentVolume does not name its class")
			}
		})
	}
}
