package play

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/purser-csi/purser/test/compat/record"
	"github.com/purser-csi/purser/test/compat/scenario"
)

// finalizer is the finalizer that an external provisioner adds to volumes that it must delete.
const finalizer = "external-provisioner.volume.kubernetes.io/finalizer"

// provision waits for the provisioner's annotation on a claim and creates the volume, as an
// external provisioner does. The claim may be deleted by then.
func (p *Player) provision(ctx context.Context, s scenario.Step) error {
	claim, err := p.asks(ctx, s.Words[0])
	if err != nil {
		return err
	}
	class, found := p.stage.Recorder.Get(record.Classes, "", *claim.Spec.StorageClassName)
	if !found {
		return fmt.Errorf("there is no class %s", *claim.Spec.StorageClassName)
	}
	policy, _, _ := unstructured.NestedString(class.Object, "reclaimPolicy")
	driver := claim.Annotations[annotation("provisioner")]
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.shared(
				s.Name,
			), Annotations: map[string]string{annotation("provisioned-by"): driver}, Finalizers: []string{finalizer},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage],
			}, AccessModes: claim.Spec.AccessModes,
			StorageClassName: *claim.Spec.StorageClassName, VolumeMode: claim.Spec.VolumeMode,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimPolicy(policy),
			VolumeAttributesClassName:     claim.Spec.VolumeAttributesClassName,
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name,
				UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: p.shared(s.Name)},
			},
		},
	}
	if err := amend(v, s); err != nil {
		return err
	}
	return p.put(ctx, record.Volumes, v, s.Name)
}

// amend changes the volume, for drivers that create another one than requested.
func amend(v *corev1.PersistentVolume, s scenario.Step) error {
	if len(s.Words) == 3 {
		q, given, err := size(scenario.Step{Words: s.Words[1:]})
		if err != nil {
			return err
		}
		v.Spec.Capacity[corev1.ResourceStorage], v.Spec.AccessModes = q, given
	}
	if mode, ok := s.Option("mode"); ok {
		v.Spec.VolumeMode = new(corev1.PersistentVolumeMode(mode))
	}
	if node, ok := s.Option("affinity"); ok {
		v.Spec.NodeAffinity = only(node)
	}
	return nil
}

func (p *Player) put(ctx context.Context, k record.Kind, object runtime.Object, name string) error {
	object.GetObjectKind().SetGroupVersionKind(k.Version)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	made, err := p.of(k).Create(ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	p.wrote(made)
	key := k.Name + "/" + name
	p.uids[key] = append(p.uids[key], string(made.GetUID()))
	return nil
}

// asks waits for the annotation that names a provisioner, and returns the claim as it was then or
// is now.
func (p *Player) asks(ctx context.Context, name string) (*corev1.PersistentVolumeClaim, error) {
	claim := &corev1.PersistentVolumeClaim{}
	err := p.until(ctx, func() string {
		o, found := p.stage.Recorder.Seen(record.Claims, p.play.Name, p.play.Name, name)
		if !found || o.GetAnnotations()[annotation("provisioner")] == "" {
			return "no claim asks for a volume for claim " + name
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, claim); err != nil {
			return err.Error()
		}
		return ""
	})
	return claim, err
}

// discard waits until a volume is released with the policy Delete, and deletes it, as an external
// provisioner does.
func (p *Player) discard(ctx context.Context, s scenario.Step) error {
	name := p.shared(s.Name)
	err := p.until(ctx, func() string {
		o, found := p.stage.Recorder.Get(record.Volumes, "", name)
		if !found {
			return "there is no volume " + s.Name
		}
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		policy, _, _ := unstructured.NestedString(o.Object, "spec", "persistentVolumeReclaimPolicy")
		if phase != string(corev1.VolumeReleased) || policy != string(corev1.PersistentVolumeReclaimDelete) {
			return fmt.Sprintf("volume %s with policy %s is %s, not to be deleted", s.Name, policy, phase)
		}
		return ""
	})
	if err != nil {
		return err
	}
	if err := p.of(record.Volumes).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return p.dropFinalizer(ctx, record.Volumes, name, finalizer)
}
