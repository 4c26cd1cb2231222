package binding

import (
	"fmt"
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

func with2(s Snapshot, edits ...func(*Snapshot)) Snapshot { return *edited(&s, edits) }

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

// show is a verdict in a line: its actions, and where it ends.
func show(v Verdict) string {
	var parts []string
	for {
		todo, ok := v.(do)
		if !ok {
			break
		}
		for _, a := range todo.Actions {
			parts = append(parts, showAction(a))
		}
		if todo.Then == nil {
			return strings.Join(parts, "; ")
		}
		v = todo.Then
	}
	kind := strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(strings.SplitN(fmt.Sprintf("%T", v), "[", 2)[0], "verdict."), "]"))
	return strings.Join(append(parts, kind+" "+string(v.Because().Reason)), "; ")
}

func showAction(a Action) string {
	switch a := a.(type) {
	case ClaimVolume:
		return "W1 " + a.Volume.Name + mark(a.Mark)
	case Complete:
		var text []string
		if a.Volume != nil {
			text = append(text, "W2 "+a.Volume.Name)
		}
		if a.Claim != nil {
			text = append(text, "W3 "+a.Name+mark(a.Mark))
		}
		return strings.Join(text, "+")
	case SetClaimStatus:
		if a.Status.Cleared {
			return "claim " + string(a.Status.Phase)
		}
		capacity := a.Status.Capacity[corev1.ResourceStorage]
		return fmt.Sprintf("W4 %s %s", a.Status.Phase, capacity.String())
	case SetVolumePhase:
		return a.Volume.Name + " " + string(a.Phase)
	case Unbind:
		return "unbind " + a.Volume.Name + word(a.Whole, " for any") + word(a.For.Name != "", " for "+a.For.String())
	case AssignClass:
		return "class " + a.Class
	case AskProvisioner:
		return "ask " + a.Driver
	case HandOver:
		return "give " + a.Driver
	case SetMigration:
		return strings.Join(strings.Fields("migrated to "+a.Driver+word(len(a.Finalizers) > 0, " without "+strings.Join(a.Finalizers, ","))), " ")
	case AskAPI:
		return fmt.Sprintf("look%s%s", word(a.Claim, " claim"), word(len(a.Volumes) > 0, " volumes"))
	case Tell:
		return "tell " + string(a.Finding.Reason) + word(a.Volume != nil, " of volume") + word(a.Claim != nil, " of claim")
	}
	return fmt.Sprintf("%T", a)
}

func mark(is bool) string { return word(is, " marked") }

func word(is bool, text string) string {
	if is {
		return text
	}
	return ""
}
