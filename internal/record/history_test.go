package record

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/explain/inventory"
	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
	"github.com/purser-csi/purser/internal/names"
)

// teller records objects at times of its own.
type teller struct {
	t       *testing.T
	out     buffer
	w       *Writer
	now     time.Time
	version int
}

func newTeller(t *testing.T, have ...client.Object) *teller {
	s := &teller{t: t, now: start}
	s.w = NewWriter(&s.out, "test", func() time.Time { return s.now })
	_ = s.w.Begin()
	for _, o := range have {
		s.stamp(o)
		s.w.Object(inventory.Seen{Object: o.DeepCopyObject().(client.Object), Initial: true})
	}
	_ = s.w.Listed(nil)
	return s
}

func (s *teller) stamp(o client.Object) {
	s.version++
	o.SetResourceVersion(fmt.Sprint(s.version))
	if at := o.GetCreationTimestamp(); at.IsZero() {
		o.SetCreationTimestamp(metav1.NewTime(s.now))
	}
	if o.GetUID() == "" {
		o.SetUID(types.UID("uid-" + o.GetName()))
	}
}

// at notes versions of objects at a number of seconds after the start.
func (s *teller) at(seconds float64, objects ...client.Object) {
	s.now = start.Add(time.Duration(seconds * float64(time.Second)))
	for _, o := range objects {
		s.stamp(o)
		s.w.Object(inventory.Seen{Object: o.DeepCopyObject().(client.Object)})
	}
}

func (s *teller) gone(seconds float64, o client.Object) {
	s.now = start.Add(time.Duration(seconds * float64(time.Second)))
	s.stamp(o)
	s.w.Object(inventory.Seen{Object: o.DeepCopyObject().(client.Object), Deleted: true})
}

func (s *teller) lives(ref explain.Ref) []life.Life {
	s.t.Helper()
	r, err := Load(map[string][]byte{"r": s.out.Bytes()})
	if err != nil || len(r.Notes) > 0 {
		s.t.Fatal(err, r.Notes)
	}
	lives := r.History().Lives(ref)
	r.small = 0
	if diff := cmp.Diff(asJSON(s.t, lives), asJSON(s.t, r.History().Lives(ref))); diff != "" {
		s.t.Errorf("the related objects alone lead to another life:\n%s", diff)
	}
	return lives
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const driver = "disk.example.com"

func class() *storagev1.StorageClass {
	remove, now := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: driver, ReclaimPolicy: &remove, VolumeBindingMode: &now,
	}
}

func newClaim() *corev1.PersistentVolumeClaim {
	class := "fast"
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", Finalizers: []string{names.FinalizerPVCProtection}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse("1Gi"),
			}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
}

func newVolume(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-1", Annotations: map[string]string{names.AnnProvisionedBy: driver},
			Finalizers: []string{names.FinalizerVolume},
		},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "fast", PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests,
			ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data", UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h-1"},
			},
		},
	}
}

func newPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}},
	}
}

// wholeLife tells of a claim whose class is missing for a minute, which is then provisioned, bound,
// used by a pod, and deleted.
func wholeLife(t *testing.T) *teller {
	s := newTeller(t)
	claim, pod := newClaim(), newPod()
	s.at(1, claim)
	s.at(61, class())
	pv := newVolume(claim)
	s.w.Call(life.Call{
		From: start.Add(62 * time.Second), To: start.Add(64 * time.Second), Name: "CreateVolume", Code: "OK", Volume: "pvc-" + string(claim.UID),
	})
	s.at(65, pv)
	bound := metav1.NewTime(start.Add(66 * time.Second))
	pv.Status.Phase, pv.Status.LastPhaseTransitionTime = corev1.VolumeBound, &bound
	s.at(66, pv)
	claim.Spec.VolumeName, claim.Status.Phase = "pvc-1", corev1.ClaimBound
	claim.Annotations = map[string]string{names.AnnBindCompleted: "yes"}
	claim.Status.Capacity = claim.Spec.Resources.Requests
	s.at(67, claim)
	s.at(70, pod)
	pod.Spec.NodeName = "n1"
	s.at(71, pod)
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(start.Add(75 * time.Second)),
	}}
	s.at(75, pod)
	s.gone(100, pod)
	deleted := metav1.NewTime(start.Add(110 * time.Second))
	claim.DeletionTimestamp = &deleted
	s.at(110, claim)
	claim.Finalizers = nil
	s.gone(111, claim)
	pv.Status.Phase = corev1.VolumeReleased
	s.at(112, pv)
	pv.Finalizers = nil
	s.gone(120, pv)
	return s
}

// lines are the phases and intervals as short texts.
func lines(l life.Life) (all []string) {
	for _, p := range l.Phases {
		all = append(all, fmt.Sprintf("%s %s %.2f", p.Kind, p.To.Sub(p.From), p.Attributed))
		for _, i := range p.Intervals {
			all = append(all, strings.TrimSpace(fmt.Sprintf("  %s %s %s %s", i.Took(), i.Lane, i.State, i.Reason)))
		}
	}
	return all
}

// Each part of a life is on the lane of the party that took the step, with the reason that explain
// gives for that time: the class was missing for a minute, and not while its volume was created.
func TestLife(t *testing.T) {
	s := wholeLife(t)
	for _, ref := range []explain.Ref{
		{Kind: explain.Claim, Namespace: "shop", Name: "data"},
		{Kind: explain.Volume, Name: "pvc-1"},
		{Kind: explain.Pod, Namespace: "shop", Name: "web"},
	} {
		all := s.lives(ref)
		if len(all) != 1 {
			t.Fatalf("%s: %d lives", ref, len(all))
		}
		want := []string{
			"creation 1m14s 1.00",
			"1m0s provisioner waiting ClassMissing",
			"1s provisioner waiting BinderSilent",
			"2s driver working BinderSilent",
			"1s provisioner waiting BinderSilent",
			"2s binder waiting BinderSilent", // the volume's phase, then the claim
			"3s user waiting",
			"1s scheduler working WaitForPodScheduled",
			"4s node waiting NodeNotReady", // no line has the node
			"use 35s 1.00",
			"25s user used",
			"10s user used",
			"deletion 10s 1.00",
			"1s deletion working ProtectionSilent",
			"1s binder working BinderSilent",
			"8s provisioner waiting ProvisionerSilent",
		}
		if diff := cmp.Diff(want, lines(all[0])); diff != "" {
			t.Errorf("%s: %s", ref, diff)
		}
		if all[0].Slowest == nil || all[0].Slowest.Took() != time.Minute || all[0].To == nil {
			t.Errorf("%s: slowest %+v, to %v", ref, all[0].Slowest, all[0].To)
		}
	}
}

// Of one version of each object, the times are those that the objects name, and the last wait has a
// reason.
func TestLifeOfDump(t *testing.T) {
	s := wholeLife(t)
	r, err := Load(map[string][]byte{"r": s.out.Bytes()})
	if err != nil {
		t.Fatal(err)
	}
	for seconds, want := range map[int][]string{
		30: {"creation 29s 1.00", "29s binder waiting ClassMissing"},
		69: {"creation 1m5s 1.00", "1m4s provisioner working", "1s binder working", "use 3s 1.00", "3s user used"},
		90: {
			"creation 1m14s 1.00", "1m4s provisioner working", "1s binder working", "4s user waiting", "5s node working",
			"use 15s 1.00", "15s user used",
		},
	} {
		b, err := r.At(start.Add(time.Duration(seconds) * time.Second))
		if err != nil {
			t.Fatal(err)
		}
		l := life.New(life.OfCluster(b.Cluster())).Lives(explain.Ref{Kind: explain.Claim, Namespace: "shop", Name: "data"})
		if len(l) != 1 {
			t.Fatalf("%d lives", len(l))
		}
		if diff := cmp.Diff(want, lines(l[0])); diff != "" {
			t.Errorf("at %d s: %s", seconds, diff)
		}
		if len(l[0].Unknown) == 0 {
			t.Error("it does not say what a dump does not tell")
		}
	}
}

// The trace has a slice for each phase and interval, and names for its threads.
func TestTrace(t *testing.T) {
	lives := wholeLife(t).lives(explain.Ref{Kind: explain.Claim, Namespace: "shop", Name: "data"})
	count := map[string]int{}
	for _, e := range life.Trace(lives).Events {
		count[e.Phase]++
		if e.Process != 1 || e.Phase == "X" && e.Took <= 0 {
			t.Errorf("%+v", e)
		}
	}
	if count["X"] != len(lines(lives[0])) || count["M"] != len(life.Lanes)+3 || count["i"] != len(lives[0].Marks) {
		t.Errorf("events: %v", count)
	}
}
