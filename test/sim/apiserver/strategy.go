package apiserver

import (
	"reflect"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

// strategy is the behaviour of the API server that is specific to one kind.
type strategy struct {
	kind       schema.GroupVersionKind
	resource   schema.GroupResource
	namespaced bool
	create     func() client.Object
	// unconditional says that an update without a resource version is taken.
	unconditional bool
	// createOnUpdate says that an update of what does not exist creates it.
	createOnUpdate bool
	// admit sets defaults and what admission adds at creation.
	admit func(client.Object)
	// keepStatus and keepSpec copy the half that a write does not reach; nil where there is no
	// /status.
	keepStatus, keepSpec func(to, from client.Object)
	// stamp is what the server itself writes into a new status; nil for nothing.
	stamp func(now, before client.Object)
	// frozen names the first immutable field that differs; empty when there is none.
	frozen func(now, before client.Object) string
}

func typed[T client.Object](f func(to, from T)) func(to, from client.Object) {
	return func(to, from client.Object) { f(to.(T), from.(T)) }
}

func admits[T client.Object](f func(T)) func(client.Object) {
	return func(o client.Object) { f(o.(T)) }
}

func compares[T client.Object](f func(now, before T) string) func(now, before client.Object) string {
	return func(now, before client.Object) string { return f(now.(T), before.(T)) }
}

// strategies are the kinds that the server knows.
var strategies = []*strategy{
	{
		kind:     corev1.SchemeGroupVersion.WithKind("PersistentVolume"),
		resource: corev1.Resource("persistentvolumes"), unconditional: true,
		create:     func() client.Object { return &corev1.PersistentVolume{} },
		admit:      admits(admitVolume),
		keepStatus: typed(func(to, from *corev1.PersistentVolume) { to.Status = from.Status }),
		keepSpec:   typed(func(to, from *corev1.PersistentVolume) { to.Spec = from.Spec }),
		stamp:      typed(stampVolume),
		frozen:     compares(frozenVolume),
	},
	{
		kind:     corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
		resource: corev1.Resource("persistentvolumeclaims"), namespaced: true, unconditional: true,
		create:     func() client.Object { return &corev1.PersistentVolumeClaim{} },
		admit:      admits(admitClaim),
		keepStatus: typed(func(to, from *corev1.PersistentVolumeClaim) { to.Status = from.Status }),
		keepSpec:   typed(func(to, from *corev1.PersistentVolumeClaim) { to.Spec = from.Spec }),
		frozen:     compares(frozenClaim),
	},
	{
		kind:     storagev1.SchemeGroupVersion.WithKind("StorageClass"),
		resource: storagev1.Resource("storageclasses"), unconditional: true,
		create: func() client.Object { return &storagev1.StorageClass{} },
		admit:  admits(admitClass),
		frozen: compares(frozenClass),
	},
	{
		kind:     storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass"),
		resource: storagev1.Resource("volumeattributesclasses"),
		create:   func() client.Object { return &storagev1.VolumeAttributesClass{} },
	},
	{
		kind:       storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"),
		resource:   storagev1.Resource("volumeattachments"),
		create:     func() client.Object { return &storagev1.VolumeAttachment{} },
		admit:      admits(func(a *storagev1.VolumeAttachment) { a.Status = storagev1.VolumeAttachmentStatus{} }),
		keepStatus: typed(func(to, from *storagev1.VolumeAttachment) { to.Status = from.Status }),
		keepSpec:   typed(func(to, from *storagev1.VolumeAttachment) { to.Spec = from.Spec }),
		frozen: compares(func(now, before *storagev1.VolumeAttachment) string {
			return differs("spec", now.Spec, before.Spec)
		}),
	},
	{
		// Binding is not served: an update gives a pod its node. Nor is there a grace period: a pod
		// that is deleted and has a finalizer is one that the kubelet is done with.
		kind:     corev1.SchemeGroupVersion.WithKind("Pod"),
		resource: corev1.Resource("pods"), namespaced: true, unconditional: true,
		create:     func() client.Object { return &corev1.Pod{} },
		admit:      admits(func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodPending} }),
		keepStatus: typed(func(to, from *corev1.Pod) { to.Status = from.Status }),
		keepSpec:   typed(func(to, from *corev1.Pod) { to.Spec = from.Spec }),
	},
	{
		kind:     coordinationv1.SchemeGroupVersion.WithKind("Lease"),
		resource: coordinationv1.Resource("leases"), namespaced: true, createOnUpdate: true,
		create: func() client.Object { return &coordinationv1.Lease{} },
	},
	{
		kind:     corev1.SchemeGroupVersion.WithKind("Secret"),
		resource: corev1.Resource("secrets"), namespaced: true, unconditional: true,
		create: func() client.Object { return &corev1.Secret{} },
		admit: admits(func(s *corev1.Secret) {
			if s.Type == "" {
				s.Type = corev1.SecretTypeOpaque
			}
		}),
		frozen: compares(func(now, before *corev1.Secret) string { return differs("type", now.Type, before.Type) }),
	},
	{
		kind:     corev1.SchemeGroupVersion.WithKind("Node"),
		resource: corev1.Resource("nodes"), unconditional: true,
		create:     func() client.Object { return &corev1.Node{} },
		keepStatus: typed(func(to, from *corev1.Node) { to.Status = from.Status }),
		keepSpec:   typed(func(to, from *corev1.Node) { to.Spec = from.Spec }),
	},
	{
		// A status is taken at creation, since no snapshotter is there to write it.
		kind:     snapshotv1.SchemeGroupVersion.WithKind("VolumeSnapshot"),
		resource: snapshotv1.Resource("volumesnapshots"), namespaced: true,
		create:     func() client.Object { return &snapshotv1.VolumeSnapshot{} },
		keepStatus: typed(func(to, from *snapshotv1.VolumeSnapshot) { to.Status = from.Status }),
		keepSpec:   typed(func(to, from *snapshotv1.VolumeSnapshot) { to.Spec = from.Spec }),
	},
	{
		kind:     snapshotv1.SchemeGroupVersion.WithKind("VolumeSnapshotContent"),
		resource: snapshotv1.Resource("volumesnapshotcontents"),
		create:   func() client.Object { return &snapshotv1.VolumeSnapshotContent{} },
		keepStatus: typed(func(to, from *snapshotv1.VolumeSnapshotContent) {
			to.Status = from.Status
		}),
		keepSpec: typed(func(to, from *snapshotv1.VolumeSnapshotContent) { to.Spec = from.Spec }),
	},
	{
		kind:     storagev1.SchemeGroupVersion.WithKind("CSIDriver"),
		resource: storagev1.Resource("csidrivers"),
		create:   func() client.Object { return &storagev1.CSIDriver{} },
	},
	{
		kind:     storagev1.SchemeGroupVersion.WithKind("CSINode"),
		resource: storagev1.Resource("csinodes"),
		create:   func() client.Object { return &storagev1.CSINode{} },
	},
	{
		kind:     storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass"),
		resource: storagev1.Resource("volumeattributesclasses"),
		create:   func() client.Object { return &storagev1.VolumeAttributesClass{} },
	},
	{
		kind:     snapshotv1.SchemeGroupVersion.WithKind("VolumeSnapshotClass"),
		resource: snapshotv1.Resource("volumesnapshotclasses"),
		create:   func() client.Object { return &snapshotv1.VolumeSnapshotClass{} },
	},
	{
		kind:     groupv1.SchemeGroupVersion.WithKind("VolumeGroupSnapshot"),
		resource: groupv1.Resource("volumegroupsnapshots"), namespaced: true,
		create:     func() client.Object { return &groupv1.VolumeGroupSnapshot{} },
		keepStatus: typed(func(to, from *groupv1.VolumeGroupSnapshot) { to.Status = from.Status }),
		keepSpec:   typed(func(to, from *groupv1.VolumeGroupSnapshot) { to.Spec = from.Spec }),
	},
	{
		kind:       groupv1.SchemeGroupVersion.WithKind("VolumeGroupSnapshotContent"),
		resource:   groupv1.Resource("volumegroupsnapshotcontents"),
		create:     func() client.Object { return &groupv1.VolumeGroupSnapshotContent{} },
		keepStatus: typed(func(to, from *groupv1.VolumeGroupSnapshotContent) { to.Status = from.Status }),
		keepSpec:   typed(func(to, from *groupv1.VolumeGroupSnapshotContent) { to.Spec = from.Spec }),
	},
	{
		kind:     groupv1.SchemeGroupVersion.WithKind("VolumeGroupSnapshotClass"),
		resource: groupv1.Resource("volumegroupsnapshotclasses"),
		create:   func() client.Object { return &groupv1.VolumeGroupSnapshotClass{} },
	},
	{
		kind:     storagev1.SchemeGroupVersion.WithKind("CSIStorageCapacity"),
		resource: storagev1.Resource("csistoragecapacities"), namespaced: true,
		create: func() client.Object { return &storagev1.CSIStorageCapacity{} },
	},
}

// strategyFor finds the strategy of a kind by the Go type of its objects.
func strategyFor(o client.Object) *strategy {
	for _, s := range strategies {
		if reflect.TypeOf(s.create()) == reflect.TypeOf(o) {
			return s
		}
	}
	return nil
}

func admitVolume(pv *corev1.PersistentVolume) {
	pv.Status = corev1.PersistentVolumeStatus{
		Phase:                   corev1.VolumePending,
		LastPhaseTransitionTime: new(metav1.Now().Rfc3339Copy()),
	}
	if pv.Spec.PersistentVolumeReclaimPolicy == "" {
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	}
	if pv.Spec.VolumeMode == nil {
		pv.Spec.VolumeMode = new(corev1.PersistentVolumeFilesystem)
	}
	addFinalizer(pv, names.FinalizerPVProtection)
}

// stampVolume sets lastPhaseTransitionTime.
func stampVolume(pv, before *corev1.PersistentVolume) {
	if pv.Status.Phase == before.Status.Phase {
		return
	}
	if since := pv.Status.LastPhaseTransitionTime; since == nil || since.Equal(before.Status.LastPhaseTransitionTime) {
		pv.Status.LastPhaseTransitionTime = new(metav1.Now().Rfc3339Copy())
	}
}

func admitClaim(claim *corev1.PersistentVolumeClaim) {
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
	if claim.Spec.VolumeMode == nil {
		claim.Spec.VolumeMode = new(corev1.PersistentVolumeFilesystem)
	}
	addFinalizer(claim, names.FinalizerPVCProtection)
}

func admitClass(class *storagev1.StorageClass) {
	if class.ReclaimPolicy == nil {
		class.ReclaimPolicy = new(corev1.PersistentVolumeReclaimDelete)
	}
	if class.VolumeBindingMode == nil {
		class.VolumeBindingMode = new(storagev1.VolumeBindingImmediate)
	}
}

func frozenVolume(now, before *corev1.PersistentVolume) string {
	return differs("spec.persistentvolumesource", now.Spec.PersistentVolumeSource, before.Spec.PersistentVolumeSource)
}

// frozenClaim allows a claim to get its volume and its class once, and to change its size and
// attributes class; other fields are immutable. A bound claim cannot request less than its capacity
// (RZ-K5).
func frozenClaim(now, before *corev1.PersistentVolumeClaim) string {
	then := before.Spec.DeepCopy()
	if then.VolumeName == "" {
		then.VolumeName = now.Spec.VolumeName
	}
	if then.StorageClassName == nil {
		then.StorageClassName = now.Spec.StorageClassName
	}
	then.VolumeAttributesClassName = now.Spec.VolumeAttributesClassName
	has, wants := before.Status.Capacity[corev1.ResourceStorage], now.Spec.Resources.Requests[corev1.ResourceStorage]
	if wants.Cmp(then.Resources.Requests[corev1.ResourceStorage]) < 0 && wants.Cmp(has) <= 0 {
		return "spec.resources.requests.storage"
	}
	then.Resources.Requests = now.Spec.Resources.Requests
	return differs("spec", now.Spec, *then)
}

func frozenClass(now, before *storagev1.StorageClass) string {
	type immutable struct {
		provisioner string
		parameters  map[string]string
		reclaim     *corev1.PersistentVolumeReclaimPolicy
		binding     *storagev1.VolumeBindingMode
	}
	of := func(c *storagev1.StorageClass) immutable {
		return immutable{c.Provisioner, c.Parameters, c.ReclaimPolicy, c.VolumeBindingMode}
	}
	a, b := of(now), of(before)
	if a.provisioner != b.provisioner || !equality.Semantic.DeepEqual(a.parameters, b.parameters) ||
		!equality.Semantic.DeepEqual(a.reclaim, b.reclaim) || !equality.Semantic.DeepEqual(a.binding, b.binding) {
		return "parameters"
	}
	return ""
}

func differs(field string, a, b any) string {
	if equality.Semantic.DeepEqual(a, b) {
		return ""
	}
	return field
}
