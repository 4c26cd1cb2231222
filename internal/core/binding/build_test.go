package binding

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/names"
)

type (
	pvc = corev1.PersistentVolumeClaim
	pv  = corev1.PersistentVolume
)

func storage(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

// claim "ns/c" with the uid "u" asks for 1Gi ReadWriteOnce, without a class ("" is explicit).
func claim(edits ...func(*pvc)) *pvc {
	c := &pvc{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "u"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new(""),
			Resources: corev1.VolumeResourceRequirements{Requests: storage("1Gi")},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	return edited(c, edits)
}

// createdAt is a time; volumes have the zero one.
func createdAt(second int64) func(*pvc) {
	return func(c *pvc) {
		c.CreationTimestamp = metav1.NewTime(time.Time{}.Add(time.Duration(second) * time.Second))
	}
}

// aVolume is "v": it has 1Gi ReadWriteOnce, is served by a CSI driver, has the policy Delete and is
// available.
func aVolume(edits ...func(*pv)) *pv {
	v := &pv{
		ObjectMeta: metav1.ObjectMeta{Name: "v", UID: "uid-v"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: storage("1Gi"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d"}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
	return edited(v, edits)
}

func edited[T any](o *T, edits []func(*T)) *T {
	for _, edit := range edits {
		edit(o)
	}
	return o
}

func wants(volume string) func(*pvc) { return func(c *pvc) { c.Spec.VolumeName = volume } }

func isComplete(c *pvc) { annotate(&c.ObjectMeta, names.AnnBindCompleted, "yes") }

func inPhase(phase corev1.PersistentVolumeClaimPhase) func(*pvc) {
	return func(c *pvc) { c.Status.Phase = phase }
}

func isBound(c *pvc) {
	c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: c.Spec.AccessModes, Capacity: storage("1Gi")}
}

func ofClass(name string) func(*pvc) { return func(c *pvc) { c.Spec.StorageClassName = &name } }

func withoutClass(c *pvc) { c.Spec.StorageClassName = nil }

func claimed(key, value string) func(*pvc) {
	return func(c *pvc) { annotate(&c.ObjectMeta, key, value) }
}

func goingClaim(c *pvc) { c.DeletionTimestamp = new(metav1.Unix(1, 0)) }

func forClaim(uid types.UID) func(*pv) {
	return func(v *pv) { v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "c", UID: uid} }
}

func forOther(v *pv) {
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "other", UID: "u2"}
}

func phase(phase corev1.PersistentVolumePhase) func(*pv) {
	return func(v *pv) { v.Status.Phase = phase }
}

// isKept is the policy of volumes that are there before their claims, nearly always.
var isKept = policy(corev1.PersistentVolumeReclaimRetain)

func policy(policy corev1.PersistentVolumeReclaimPolicy) func(*pv) {
	return func(v *pv) { v.Spec.PersistentVolumeReclaimPolicy = policy }
}

func marked(key, value string) func(*pv) {
	return func(v *pv) { annotate(&v.ObjectMeta, key, value) }
}

func named(name string) func(*pv) {
	return func(v *pv) { v.Name, v.UID = name, types.UID("uid-"+name) }
}

func sized(size string) func(*pv) { return func(v *pv) { v.Spec.Capacity = storage(size) } }

func onHost(v *pv) {
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{}}
}

func isRaw(v *pv) { v.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) }

func goingVolume(v *pv) { v.DeletionTimestamp = new(metav1.Unix(1, 0)) }

func classed(name string) func(*pv) { return func(v *pv) { v.Spec.StorageClassName = name } }

func annotate(o *metav1.ObjectMeta, key, value string) {
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Annotations[key] = value
}

func class(name, provisioner string, edits ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
	return edited(&storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: new(storagev1.VolumeBindingImmediate),
	}, edits)
}

func waitsForPod(c *storagev1.StorageClass) {
	c.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
}

func isDefaultClass(created int64) func(*storagev1.StorageClass) {
	return func(c *storagev1.StorageClass) {
		annotate(&c.ObjectMeta, names.AnnDefaultStorageClass, "true")
		c.CreationTimestamp = metav1.Unix(created, 0)
	}
}

// pair is the snapshot of a claim and volumes, each in the place that its claimRef and the claim's
// volumeName give it.
func pair(c *pvc, volumes ...*pv) Snapshot {
	s := Snapshot{Key: Key{Claim: types.NamespacedName{Namespace: "ns", Name: "c"}}, Claim: c}
	for _, v := range volumes {
		if ref := v.Spec.ClaimRef; ref != nil && ref.Name == "c" {
			s.Refs = append(s.Refs, v)
		}
		if c != nil && c.Spec.VolumeName == v.Name {
			s.Named = v
		}
	}
	return s
}

// given is a snapshot with more of the cluster in it.
func given(s Snapshot, edits ...func(*Snapshot)) Snapshot { return *edited(&s, edits) }

func offered(v *pv) func(*Snapshot) { return func(s *Snapshot) { s.Offer = v } }

func inClass(c *storagev1.StorageClass) func(*Snapshot) {
	return func(s *Snapshot) { s.Class = c }
}

func byDefault(c *storagev1.StorageClass) func(*Snapshot) {
	return func(s *Snapshot) { s.Default = c }
}

func volumesAsked(s *Snapshot) { s.VolumesAsked = true }

func claimAsked(s *Snapshot) { s.ClaimAsked = true }

func isGone(uid types.UID) func(*Snapshot) {
	return func(s *Snapshot) { s.Gone = map[types.UID]struct{}{uid: {}} }
}

// show writes a verdict as the rows of the tables do: its actions, and how it ends.
func show(v Verdict) string {
	var parts []string
	for v != nil {
		todo, ok := v.(do)
		if !ok {
			kind, _, _ := strings.Cut(strings.TrimPrefix(fmt.Sprintf("%T", v), "verdict."), "[")
			parts = append(parts, strings.ToLower(kind)+": "+string(v.Because().Reason))
			break
		}
		for _, a := range todo.Actions {
			name := strings.TrimPrefix(fmt.Sprintf("%T", a), "binding.")
			parts = append(parts, strings.Join(append([]string{name}, details(a)...), " "))
		}
		v = todo.Then
	}
	return strings.Join(parts, "; ")
}

// details are what an action is about, in words.
func details(a Action) []string {
	switch a := a.(type) {
	case Reserve:
		return []string{a.Volume.Name}
	case ClaimVolume:
		return words(a.Volume.Name, when(a.Mark, "marked"))
	case Complete:
		switch {
		case a.Claim == nil:
			return words("volume", a.Volume.Name)
		case a.Volume == nil:
			return words("claim of", a.Name, when(a.Mark, "marked"))
		}
		return words("volume and claim of", a.Name, when(a.Mark, "marked"))
	case SetClaimStatus:
		capacity := a.Status.Capacity[corev1.ResourceStorage]
		return words(string(a.Status.Phase), when(!a.Status.Cleared, capacity.String()))
	case SetVolumePhase:
		return words(a.Volume.Name, string(a.Phase), when(a.AsSeen, "as seen"))
	case Unbind:
		return words(a.Volume.Name, when(a.Whole, "for any claim"), when(a.For.Name != "", "for "+a.For.String()))
	case AssignClass:
		return words(a.Class)
	case AskProvisioner:
		return words(a.Driver)
	case HandOver:
		return words(a.Driver)
	case SetMigration:
		return words(a.Driver, when(len(a.Finalizers) > 0, "without "+strings.Join(a.Finalizers, ",")))
	case AskAPI:
		return words(when(a.Claim, "claim"), when(len(a.Volumes) > 0, "volumes"))
	case Tell:
		return words(when(a.Volume != nil, "volume"), when(a.Claim != nil, "claim"), string(a.Finding.Reason))
	}
	return nil
}

func when(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

// words leaves out those that are empty.
func words(all ...string) []string {
	return slices.DeleteFunc(all, func(word string) bool { return word == "" })
}
