package ephemeral

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/verdict"
)

func shape(v Verdict) string {
	switch v := v.(type) {
	case nothing:
		return "nothing " + string(v.Reason)
	case refuse:
		return "refuse " + string(v.Reason) + ": " + v.Text()
	case do:
		out := ""
		for _, a := range v.Actions {
			out += "create " + a.Create.Name + " "
		}
		return out + "then " + shape(v.Then)
	}
	return "nil"
}

func template() *corev1.PersistentVolumeClaimTemplate {
	return &corev1.PersistentVolumeClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "2"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new("fast"),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

func world(edits ...func(*Snapshot)) Snapshot {
	s := Snapshot{
		Key: Key{Namespace: "ns", Pod: "a", UID: "u", Volume: "b-c"},
		Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{
			{Name: "plain"},
			{Name: "b-c", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: template()}}},
		}}},
	}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func TestDecide(t *testing.T) {
	claim := func(owner types.UID) func(*Snapshot) {
		return func(s *Snapshot) {
			s.Claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a-b-c", OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Pod", Name: "a", UID: owner, Controller: new(true)},
			}}}
		}
	}
	phase := func(p corev1.PodPhase) func(*Snapshot) { return func(s *Snapshot) { s.Pod.Status.Phase = p } }
	deleting := func(s *Snapshot) { s.Pod.DeletionTimestamp = &metav1.Time{} }
	for _, tc := range []struct {
		row  string
		s    Snapshot
		want string
	}{
		{"3.6 created", world(), "create a-b-c then nothing EphemeralCreated"},
		{"3.6 there already", world(claim("u")), "nothing EphemeralReady"},
		{
			"3.6 of pod a-b, volume c: upstream's words", world(claim("other")),
			"refuse EphemeralTaken: ephemeral volume b-c: PVC ns/a-b-c was not created for pod ns/a (pod is not owner)",
		},
		{"3.6 without an owner", world(func(s *Snapshot) { s.Claim = &corev1.PersistentVolumeClaim{} }), "refuse EphemeralTaken: ephemeral volume b-c: PVC ns/a-b-c was not created for pod ns/a (pod is not owner)"},
		{"3.6 pod gone", Snapshot{}, "nothing PodGone"},
		{"3.6 pod going", world(deleting), "nothing PodEnded"},
		{"3.6 pod succeeded: upstream creates", world(phase(corev1.PodSucceeded)), "nothing PodEnded"},
		{"3.6 pod failed: upstream creates", world(phase(corev1.PodFailed)), "nothing PodEnded"},
		{"3.6 pod running, claim deleted by force", world(phase(corev1.PodRunning)), "create a-b-c then nothing EphemeralCreated"},
		{"not an ephemeral volume", world(func(s *Snapshot) { s.Key.Volume = "plain" }), "nothing PodGone"},
		{"no template", world(func(s *Snapshot) { s.Pod.Spec.Volumes[1].Ephemeral.VolumeClaimTemplate = nil }), "refuse EphemeralFailed: ephemeral volume b-c: volumeClaimTemplate is empty"},
	} {
		t.Run(tc.row, func(t *testing.T) {
			if got := shape(Decide(tc.s)); got != tc.want {
				t.Errorf("got %s\nwant %s", got, tc.want)
			}
		})
	}
	failed := AfterCreate(world(), "a-b-c", CreateFailure{Message: "quota"})
	if got := shape(failed); got != "refuse EphemeralFailed: ephemeral volume b-c: create PVC a-b-c: quota" {
		t.Error(got)
	}
	if got := verdict.Describe(failed.Because().Reason); got.Event != "FailedBinding" || got.Severity != verdict.Warning {
		t.Errorf("%+v", got)
	}
}

// 3.6: the claim is made from the template, and is owned by the pod, so that the garbage collector
// deletes it.
func TestClaimIsTheTemplate(t *testing.T) {
	s := world()
	todo, ok := Decide(s).(do)
	if !ok {
		t.Fatal("nothing to do")
	}
	want := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "a-b-c", Labels: template().Labels, Annotations: template().Annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "a", UID: "u", Controller: new(true), BlockOwnerDeletion: new(true)}},
		},
		Spec: template().Spec,
	}
	got := todo.Actions[0].Create
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got.Labels["l"] = "changed"
	if diff := cmp.Diff(template(), s.Pod.Spec.Volumes[1].Ephemeral.VolumeClaimTemplate); diff != "" {
		t.Errorf("the pod in memory shares something with the claim: %s", diff)
	}
}

func FuzzDecide(f *testing.F) {
	f.Add(uint16(0), "", "")
	f.Add(uint16(0xffff), "a", "b-c")
	f.Fuzz(func(t *testing.T, bits uint16, pod, volume string) {
		yes := func() bool { b := bits & 1; bits >>= 1; return b == 1 }
		s := Snapshot{Key: Key{Volume: volume}}
		if yes() {
			s.Pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod}}
			if yes() {
				s.Pod.Spec.Volumes = []corev1.Volume{{}, {Name: volume}}
			}
			if yes() {
				for i := range s.Pod.Spec.Volumes {
					s.Pod.Spec.Volumes[i].Ephemeral = &corev1.EphemeralVolumeSource{}
				}
			}
			if yes() {
				s.Pod.DeletionTimestamp = &metav1.Time{}
			}
			Volumes(s.Pod)
		}
		if yes() {
			s.Claim = &corev1.PersistentVolumeClaim{}
		}
		for _, v := range []Verdict{Decide(s), AfterCreate(s, pod, CreateFailure{Message: volume})} {
			if v == nil || v.Because().Reason == "" || strings.Contains(string(v.Because().Reason), " ") {
				t.Errorf("no verdict for %+v", s)
			}
		}
	})
}

// A claim that exists although the cache does not have it is read live, once.
func TestExistingClaimIsRead(t *testing.T) {
	s, exists := world(), CreateFailure{Exists: true, Message: "exists"}
	asks, ok := AfterCreate(s, "a-b-c", exists).(verdict.Read[Action])
	if !ok || asks.Refs[0] != (verdict.Ref{What: ReadClaim, Namespace: s.Pod.Namespace, Name: "a-b-c"}) {
		t.Errorf("%+v", asks)
	}
	s.IsLive = true
	if v, ok := AfterCreate(s, "a-b-c", exists).(refuse); !ok || v.Reason != verdict.EphemeralFailed {
		t.Errorf("%+v", v)
	}
}
