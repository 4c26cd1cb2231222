package provision

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/secretref"
	"github.com/purser-csi/purser/internal/verdict"
)

// newSecrets resolves every secret reference of the class, so that a mistake in any of them is
// reported before anything is created (C-62, R-57).
func newSecrets(s Snapshot) (secretref.Set, *verdict.Finding) {
	set, problem := secretref.NewSet(s.Class.Parameters, secretref.Scope{
		VolumeName: volumeName(s), Claim: s.Key.NamespacedName, Annotations: s.Claim.Annotations,
	})
	if problem != nil {
		return secretref.Set{}, invalidClass(s, problem.Parameter, problem.Text, problem.Fix)
	}
	return set, nil
}

// ProvisionerSecret returns the secret that the StorageClass names for CreateVolume; empty for none.
func ProvisionerSecret(s Snapshot) types.NamespacedName {
	set, finding := newSecrets(s)
	if finding != nil {
		return types.NamespacedName{}
	}
	return set.Of(secretref.Provisioner)
}

// checkSecret comes after the checks of the request: a missing secret can be created without a
// change of class or claim.
func checkSecret(s Snapshot, ref types.NamespacedName) *verdict.Finding {
	if ref.Name == "" {
		return nil
	}
	return problemOf(s.Secret, ref)
}

func problemOf(secret Secret, ref types.NamespacedName) *verdict.Finding {
	switch secret.Access {
	case Missing:
		return &verdict.Finding{
			Reason:  verdict.SecretMissing,
			Message: fmt.Sprintf("secret %q, which the StorageClass names for CreateVolume, does not exist", ref),
			Fix:     "Create it; provisioning then goes on by itself",
		}
	case Forbidden:
		return &verdict.Finding{
			Reason: verdict.SecretForbidden,
			Message: fmt.Sprintf(
				"secret %q, which the StorageClass names for CreateVolume, may not be read by the provisioner%s",
				ref, because(secret.Refusal),
			),
			Fix: mayReadSecret(ref.Namespace),
		}
	case Unknown, Readable:
	}
	return nil
}

// because continues a sentence with the words of an error, if there are any.
func because(refusal string) string {
	if refusal == "" {
		return ""
	}
	return ": " + refusal
}

func mayReadSecret(namespace string) string {
	return fmt.Sprintf(
		"Give its service account a Role in namespace %q with apiGroups [\"\"], resources [secrets], verbs [get]",
		namespace,
	)
}

// AfterSecret returns what follows when the secret could not be read right before CreateVolume.
func AfterSecret(s Snapshot, ref types.NamespacedName, secret Secret) Verdict {
	finding := problemOf(secret, ref)
	if finding == nil {
		return NotSent(s, fmt.Errorf("read secret %q", ref))
	}
	return unsent(s, *finding)
}

// AfterUnfitSecret returns what follows when a value of the secret is not valid UTF-8, which gRPC
// cannot carry.
func AfterUnfitSecret(s Snapshot, ref types.NamespacedName, key string) Verdict {
	return unsent(s, verdict.Finding{
		Reason: verdict.SecretUnfit,
		Message: fmt.Sprintf(
			"secret %q, which the StorageClass names for CreateVolume, has a value under the key %q that is not "+
				"UTF-8 text, and a call to the driver can carry nothing else",
			ref,
			key,
		),
		Fix: "Put it there in the form that the driver documents, or take the key out; provisioning then goes on by " +
			"itself",
	})
}

// NotSent returns what follows when CreateVolume was not sent for a reason that has nothing to do
// with the claim.
func NotSent(s Snapshot, err error) Verdict {
	return unsent(s, verdict.Because(verdict.WriteFailed, "%s", err.Error()))
}

// unsent resolves the entry unless it existed before this attempt. An existing entry keeps its
// number of final errors. It loses NoVolume: the request of this attempt may be an older one, so
// only this is known: some call may have created a volume (H-1).
func unsent(s Snapshot, f verdict.Finding) Verdict {
	failed := refuse{Finding: f}
	switch {
	case s.Pending == nil:
		return do{Finding: f, Actions: []Action{Resolve{}}, Then: failed}
	case s.Pending.Known.FinalErrors > 0:
		return do{
			Finding: f,
			Actions: []Action{Note{intent.Known{FinalErrors: s.Pending.Known.FinalErrors}}},
			Then:    failed,
		}
	}
	return failed
}
