package runner

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	protection "github.com/purser-csi/purser/internal/protection/rules"
)

const (
	// Namespace is that of the claims of Pairs.
	Namespace = "default"
	// Writers is how many requests of the benchmark are in flight.
	Writers = 16
)

// Each calls a function for each element, with Writers calls at once.
func Each[T any](ctx context.Context, all []T, do func(context.Context, T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(Writers)
	for _, one := range all {
		group.Go(func() error { return do(ctx, one) })
	}
	return group.Wait()
}

// Create creates objects. Those that exist stay as they are.
func (r *Run) Create(ctx context.Context, objects ...client.Object) error {
	return Each(ctx, objects, func(ctx context.Context, o client.Object) error {
		return client.IgnoreAlreadyExists(r.API.Create(ctx, o))
	})
}

// Install installs the custom resources that are in the folder of programs.
func (r *Run) Install(ctx context.Context) error {
	return r.Cluster.Install(ctx, cluster.FindResources(r.Bin)...)
}

// Gibibyte is the size of each volume.
func Gibibyte() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
}

// NewClaim returns a claim for a volume of the class; nil for the default class.
func NewClaim(namespace, name string, class *string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
			Resources: corev1.VolumeResourceRequirements{Requests: Gibibyte()},
		},
	}
}

// Pairs creates a bound claim with its volume for each name, which is that of both and the handle.
func (r *Run) Pairs(ctx context.Context, driver, class string, names []string) error {
	return Each(ctx, names, func(ctx context.Context, name string) error {
		claim := NewClaim(Namespace, name, &class)
		claim.Spec.VolumeName = name
		pv := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeSpec{
				AccessModes: claim.Spec.AccessModes, Capacity: Gibibyte(), StorageClassName: class,
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
					Driver: driver, VolumeHandle: name,
				}},
			},
		}
		return CreateBound(ctx, r.API, claim, pv)
	})
}

// CreateBound creates a claim and its volume, and writes that both are bound, under the names of the
// writers in a cluster: the API server keeps a record of fields for each. The claim has the condition
// Unused, as after a while in a cluster of 1.37: without it each one waits for a controller's write.
func CreateBound(
	ctx context.Context, api client.Client, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume,
) error {
	if err := api.Create(ctx, claim, client.FieldOwner("kubectl-client-side-apply")); err != nil {
		return err
	}
	pv.Spec.ClaimRef = &corev1.ObjectReference{
		Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name,
		UID: claim.UID, ResourceVersion: claim.ResourceVersion,
	}
	if err := api.Create(ctx, pv, client.FieldOwner("purser")); err != nil {
		return err
	}
	pv.Status.Phase = corev1.VolumeBound
	unused := protection.UnusedCondition(nil)
	unused.LastTransitionTime = metav1.Now()
	claim.Status = corev1.PersistentVolumeClaimStatus{
		Phase: corev1.ClaimBound, AccessModes: claim.Spec.AccessModes, Capacity: pv.Spec.Capacity,
		Conditions: []corev1.PersistentVolumeClaimCondition{unused},
	}
	binder := client.FieldOwner("kube-controller-manager")
	return errors.Join(api.Status().Update(ctx, pv, binder), api.Status().Update(ctx, claim, binder))
}
