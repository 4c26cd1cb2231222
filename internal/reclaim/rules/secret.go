package reclaim

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/secretref"
	"github.com/purser-csi/purser/internal/verdict"
)

// secretAnnotations returns the secret for DeleteVolume in the volume's annotations.
func secretAnnotations(pv *corev1.PersistentVolume) (name, namespace string, annotated bool) {
	name, hasName := pv.Annotations[names.AnnDeletionSecretName]
	namespace, hasNamespace := pv.Annotations[names.AnnDeletionSecretNamespace]
	return name, namespace, hasName || hasNamespace
}

// deletionSecret returns the secret for DeleteVolume; empty for none (D-15, AN-8). The volume's
// annotations win over its class, which may have been replaced since (C-115).
func deletionSecret(s Snapshot) (types.NamespacedName, *verdict.Finding) {
	name, namespace, annotated := secretAnnotations(s.Volume)
	switch {
	case !annotated:
		return fromClass(s)
	case name == "" && namespace == "":
		return types.NamespacedName{}, nil
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return types.NamespacedName{}, badAnnotation(names.AnnDeletionSecretName, name)
	}
	if len(validation.IsDNS1123Label(namespace)) > 0 {
		return types.NamespacedName{}, badAnnotation(names.AnnDeletionSecretNamespace, namespace)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

func badAnnotation(key, value string) *verdict.Finding {
	return &verdict.Finding{
		Reason: verdict.VolumeInvalid,
		Message: fmt.Sprintf(
			"PersistentVolume annotation %s is %q, so the secret that deletes the volume cannot be found",
			key,
			value,
		),
		Fix: "Set the annotations for name and namespace to the secret, or both to nothing when none is needed",
	}
}

// fromClass resolves the secret of static volumes and of volumes from before upstream wrote the
// annotations. A class that is gone, or has another driver now, has none. The claim is gone with
// its annotations, so a template that needs them can only be corrected on the volume (H-17).
func fromClass(s Snapshot) (types.NamespacedName, *verdict.Finding) {
	class := s.class()
	if class == nil || class.Provisioner != s.Driver.Name || !namesClaim(s.Volume) {
		return types.NamespacedName{}, nil
	}
	ref, problem := secretref.Resolve(secretref.Deletion, class.Parameters, secretref.Scope{
		VolumeName: s.Volume.Name,
		Claim: types.NamespacedName{
			Namespace: s.Volume.Spec.ClaimRef.Namespace,
			Name:      s.Volume.Spec.ClaimRef.Name,
		},
	})
	if problem != nil {
		return types.NamespacedName{}, &verdict.Finding{
			Reason: verdict.VolumeInvalid,
			Message: fmt.Sprintf(
				"the secret that deletes the volume is not known: StorageClass %q parameter %s: %s",
				class.Name,
				problem.Parameter,
				problem.Text,
			),
			Fix: fmt.Sprintf("Set the annotations %s and %s of the PersistentVolume, both to nothing when none is "+
				"needed",
				names.AnnDeletionSecretName, names.AnnDeletionSecretNamespace),
		}
	}
	return ref, nil
}

// SecretFailure is the error of reading a secret.
type SecretFailure struct {
	Forbidden bool
	Message   string // the API server's error message
}

// AfterSecret returns what follows when the secret for DeleteVolume could not be read although it
// may exist. Upstream calls the driver without it; a driver that cannot log in may answer that
// there is no such volume (H-16, U-41).
func AfterSecret(ref types.NamespacedName, f SecretFailure) Verdict {
	finding := verdict.Because(
		verdict.VolumeSecretUnreadable,
		"secret %q, which is needed to delete the volume, cannot be read: %s", ref, f.Message,
	)
	if f.Forbidden {
		finding.Fix = fmt.Sprintf(
			"Give the provisioner's service account a Role in namespace %q with apiGroups [\"\"], resources "+
				"[secrets], verbs [get]",
			ref.Namespace,
		)
	}
	return refuse{Finding: finding}
}
