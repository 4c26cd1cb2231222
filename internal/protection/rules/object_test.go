package protection

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
)

func volume(phase corev1.PersistentVolumePhase, edits ...func(*corev1.PersistentVolume)) Volume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "v", UID: "u", Finalizers: []string{names.FinalizerPVProtection}, DeletionTimestamp: &metav1.Time{Time: deletedAt},
			Annotations: map[string]string{names.AnnProvisionedBy: "d"},
		},
		Status: corev1.PersistentVolumeStatus{Phase: phase},
	}
	for _, edit := range edits {
		edit(pv)
	}
	return Volume{Object: pv}
}

func TestDecideVolume(t *testing.T) {
	live := func(pv *corev1.PersistentVolume) { pv.DeletionTimestamp = nil }
	none := func(pv *corev1.PersistentVolume) { pv.Finalizers = nil }
	given := func(pv *corev1.PersistentVolume) {
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "c", UID: "cu"}
	}
	wished := func(pv *corev1.PersistentVolume) {
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "c"}
	}
	reclaimed := func(pv *corev1.PersistentVolume) { pv.Finalizers = append(pv.Finalizers, names.FinalizerVolume) }
	deletes := func(pv *corev1.PersistentVolume) {
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	}
	attached := func(pv *corev1.PersistentVolume) { pv.Finalizers = []string{"external-attacher/d"} }
	together := func(s Volume) Volume { s.ColocatedDrivers = []string{"d"}; return s }
	const drop = "DropFinalizer then nothing VolumeUnprotected"
	for _, tc := range []struct {
		row  string
		s    Volume
		at   duration
		want string
	}{
		{"gone", Volume{}, 0, "nothing VolumeGone"},
		{"3.2 no finalizer: added", volume(corev1.VolumeAvailable, live, none), 0, "AddFinalizer then nothing VolumeProtected"},
		{"3.2 bound and alive", volume(corev1.VolumeBound, live, given), 0, "nothing VolumeProtected"},
		{"3.2 deleting without it", volume(corev1.VolumeBound, none), 0, "nothing VolumeUnprotected"},
		{"3.2 bound", volume(corev1.VolumeBound, given), 0, "wait VolumeInUse until 1m0s"},
		{"3.2 bound, reference taken away", volume(corev1.VolumeBound), 0, "wait VolumeInUse until 1m0s"},
		{"3.2 given to a claim, phase behind", volume(corev1.VolumeAvailable, given), 0, "wait VolumeInUse until 1m0s"},
		{"3.2 provisioned for a claim, no phase yet", volume(corev1.VolumePending, given), 0, "wait VolumeInUse until 1m0s"},
		{"3.2 no phase at all", volume("", given), 0, "wait VolumeInUse until 1m0s"},
		{"3.2 a user's wish that nothing came of", volume(corev1.VolumeAvailable, wished), 0, drop},
		{"3.2 available", volume(corev1.VolumeAvailable), 0, drop},
		{"3.2 released keeps its reference", volume(corev1.VolumeReleased, given), 0, drop},
		{"3.2 failed", volume(corev1.VolumeFailed, given), 0, drop},
		{"8.26 told when its claim stays", volume(corev1.VolumeBound, given), at(TellAfter), "wait VolumeStillUsed until 32m0s"},
		{"8.26 held by others", volume(corev1.VolumeReleased, attached), 0, "wait VolumeUnprotected until 1m0s"},
		{"8.26 told when others stay", volume(corev1.VolumeReleased, attached), at(TellAfter), "wait VolumeBlockedByFinalizers until 32m0s"},
		{"8.26 the provisioner at work is not ours", volume(corev1.VolumeReleased, given, reclaimed), 0, drop},
		{"8.26 our provisioner drops both at once", together(volume(corev1.VolumeReleased, given, reclaimed)), 0, "wait VolumeReclaimAwaited"},
		{"8.26 our provisioner is about to delete it", together(volume(corev1.VolumeReleased, live, none, given, deletes)), 0, "wait VolumeReclaimAwaited"},
		{"3.2 our provisioner has not removed its finalizer: added", together(volume(corev1.VolumeReleased, live, none, given, deletes, reclaimed)), 0, "AddFinalizer then nothing VolumeProtected"},
		{"3.2 released to be kept: added", together(volume(corev1.VolumeReleased, live, none, given)), 0, "AddFinalizer then nothing VolumeProtected"},
		{"3.2 the provisioner is not ours: added", volume(corev1.VolumeReleased, live, none, given, deletes), 0, "AddFinalizer then nothing VolumeProtected"},
		{"3.2 in use by the phase: added", together(volume(corev1.VolumeBound, live, none, given, deletes)), 0, "AddFinalizer then nothing VolumeProtected"},
		{"8.26 our provisioner removed its finalizer already", together(volume(corev1.VolumeReleased, given)), 0, drop},
	} {
		t.Run(tc.row, func(t *testing.T) {
			if got := shape(DecideVolume(tc.s, deletedAt.Add(time.Duration(tc.at)))); got != tc.want {
				t.Errorf("got %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestDecideClass(t *testing.T) {
	class := func(deleting bool, users []string, finalizers ...string) Class {
		s := Class{Users: users, Object: &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "gold", Finalizers: finalizers}}}
		if deleting {
			s.Object.DeletionTimestamp = &metav1.Time{Time: deletedAt}
		}
		return s
	}
	used := []string{"claim ns/c"}
	live := func(users ...string) Class {
		s := class(true, nil, names.FinalizerVACProtection)
		s.LiveUsers = &users
		return s
	}
	for _, tc := range []struct {
		row  string
		got  Verdict
		want string
	}{
		{"gone", DecideClass(Class{}, deletedAt), "nothing AttributesClassGone"},
		{"3.3 no finalizer: added", DecideClass(class(false, nil), deletedAt), "AddFinalizer then nothing AttributesClassProtected"},
		{"3.3 alive", DecideClass(class(false, nil, names.FinalizerVACProtection), deletedAt), "nothing AttributesClassProtected"},
		{"3.3 deleting without it", DecideClass(class(true, used), deletedAt), "nothing AttributesClassUnprotected"},
		{"3.3 used", DecideClass(class(true, used, names.FinalizerVACProtection), deletedAt), "wait AttributesClassUsed"},
		{"3.3 unused in memory is no proof", DecideClass(class(true, nil, names.FinalizerVACProtection), deletedAt), "read users of the VolumeAttributesClass/gold"},
		{"3.3 used at the API server", DecideClass(live(used...), deletedAt), "wait AttributesClassUsed until 30s"},
		{"3.3 unused at the API server", DecideClass(live(), deletedAt), "DropFinalizer then nothing AttributesClassUnprotected"},
	} {
		t.Run(tc.row, func(t *testing.T) {
			if got := shape(tc.got); got != tc.want {
				t.Errorf("got %s\nwant %s", got, tc.want)
			}
		})
	}
}

// 3.3: the four fields that name a class.
func TestClassesAreNamed(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{}
	want := func(names ...string) {
		t.Helper()
		if diff := cmp.Diff(names, ClassesOfClaim(claim), cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	}
	want()
	claim.Spec.VolumeAttributesClassName = new("spec")
	want("spec")
	claim.Status.CurrentVolumeAttributesClassName = new("current")
	want("spec", "current")
	claim.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: "target"}
	want("spec", "current", "target")
	claim.Status.CurrentVolumeAttributesClassName = new("spec")
	claim.Status.ModifyVolumeStatus.TargetVolumeAttributesClassName = ""
	want("spec")
	pv := &corev1.PersistentVolume{}
	if got := ClassesOfVolume(pv); len(got) != 0 {
		t.Error(got)
	}
	pv.Spec.VolumeAttributesClassName = new("volume")
	if got := ClassesOfVolume(pv); len(got) != 1 || got[0] != "volume" {
		t.Error(got)
	}
}

// FuzzDecide: nothing that an object lacks makes a decision panic, and no verdict is nil but where
// an answer is to come.
func FuzzDecide(f *testing.F) {
	f.Add(uint16(0), int64(0))
	f.Add(uint16(0xffff), int64(time.Hour))
	f.Fuzz(func(t *testing.T, bits uint16, now int64) {
		yes := func() bool { b := bits & 1; bits >>= 1; return b == 1 }
		var m metav1.ObjectMeta
		if yes() {
			m.Finalizers = []string{names.FinalizerPVCProtection, names.FinalizerPVProtection, names.FinalizerVACProtection}
		}
		if yes() {
			m.DeletionTimestamp = &metav1.Time{}
		}
		var users []string
		if yes() {
			users = []string{""}
		}
		var c Claim
		var v Volume
		var k Class
		if yes() {
			c.Object, v.Object, k.Object = &corev1.PersistentVolumeClaim{ObjectMeta: m}, &corev1.PersistentVolume{ObjectMeta: m}, &storagev1.VolumeAttributesClass{ObjectMeta: m}
			if yes() {
				v.Object.Spec.ClaimRef = &corev1.ObjectReference{}
			}
		}
		k.Users = users
		if yes() {
			k.LiveUsers = &users
		}
		if yes() {
			c.Answer = &Answer{Users: users}
		}
		when := time.Unix(0, now)
		for _, verdict := range []Verdict{DecideClaim(c, when), DecideVolume(v, when), DecideClass(k, when)} {
			if verdict == nil || verdict.Because().Reason == "" {
				t.Errorf("no verdict for %+v %+v %+v", c, v, k)
			}
		}
		var p corev1.Pod
		if yes() {
			p.Spec.NodeName, p.Spec.Volumes = "n", make([]corev1.Volume, 2)
			p.Spec.Volumes[0].Ephemeral = &corev1.EphemeralVolumeSource{}
		}
		Uses(&p, &corev1.PersistentVolumeClaim{ObjectMeta: m})
		ClaimNames(&p)
	})
}
