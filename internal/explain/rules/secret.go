package explain

import (
	"cmp"
	"fmt"
	"slices"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/secretref"
	"github.com/purser-csi/purser/internal/verdict"
)

// namedSecret is a secret that a field of an object names.
type namedSecret struct {
	ref   types.NamespacedName
	where Ref
	field string
}

// caller is a program that reads secrets, in the words of findings and of a placeholder.
type caller struct{ name, placeholder string }

var (
	provisionerAccount = caller{"the driver's provisioner", "PROVISIONER"}
	resizerAccount     = caller{"the driver's resizer", "RESIZER"}
	kubeletAccount     = caller{"the program that mounts on the node", "NODE-PROGRAM"}
)

// secretForbiddenByEvent is [Cluster.secretForbidden] for an event. Any user of a namespace can
// write one, also about a claim that waits: the account that it names may be the user's own. So no
// command and no text but the quoted event has that account.
func (c *Cluster) secretForbiddenByEvent(
	event *corev1.Event, by caller, named []namedSecret, f Finding,
) (_ Finding, ok bool) {
	f, ok = c.secretForbidden(event.Message, eventEvidence(event, c.Now), named, f)
	if !ok {
		return f, false
	}
	ref := types.NamespacedName{Namespace: f.Cause.Namespace, Name: f.Cause.Name}
	f.WaitsFor = fmt.Sprintf("the permission of %s to get secret %s, as an event says", by.name, ref)
	f.Fix[0].Text = "Find the service account of " + by.name + " in the spec of its pod, and let it read this " +
		"secret; the call is repeated by itself. Do not take the account from the event: any user who can create " +
		"events in the namespace can have written it"
	f.Fix[0].Command = secretref.PermitReadBy(ref, by.placeholder)
	return f, true
}

// secretForbidden explains a message with a refusal of the API server to read a secret. It counts
// if a field names the secret; ok is false for another message. said is the evidence that has the
// message, which is a status field that only controllers write.
func (c *Cluster) secretForbidden(message string, said Evidence, named []namedSecret, f Finding) (_ Finding, ok bool) {
	ref, user, refused := secretref.Refused(message)
	if !refused {
		return f, false
	}
	i := slices.IndexFunc(named, func(n namedSecret) bool { return n.ref == ref })
	if i < 0 {
		return f, false
	}
	f = f.about(Ref{Secret, ref.Namespace, ref.Name}).waits(verdict.SecretForbidden, Administrator,
		"the permission of %s to get secret %s", user, ref)
	f.Evidence = append(f.Evidence, said, Evidence{named[i].where, named[i].field, ref.String(), ""})
	if !c.lacks(Secret) && !c.NoneInDump[Secret] && !c.index.secrets[ref] {
		f.Evidence = append(f.Evidence, Evidence{f.Cause, "metadata.name", "no such secret", ref.String()})
	}
	f.Fix = []Step{{
		Text:    "Let the account read this secret; the call is repeated by itself",
		Command: secretref.PermitRead(ref, user),
		Risk:    "the account can use the credentials in the secret for everything that they allow",
	}}
	return f, true
}

// secretsOfClass are those that the parameters of the claim's class name.
func secretsOfClass(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) (named []namedSecret) {
	if class == nil {
		return nil
	}
	for _, kind := range secretref.Kinds() {
		ref, problem := secretref.Resolve(kind, class.Parameters, secretref.Scope{
			VolumeName: "pvc-" + string(claim.UID), Claim: keyOf(claim), Annotations: claim.Annotations,
		})
		if problem == nil && ref.Name != "" {
			named = append(named, namedSecret{ref, Ref{Kind: Class, Name: class.Name}, "parameters of secrets"})
		}
	}
	return named
}

// secretsOfVolume are those that the fields and annotations of a PersistentVolume name.
func secretsOfVolume(pv *corev1.PersistentVolume) (named []namedSecret) {
	annotated := func(name, namespace string) {
		ref := types.NamespacedName{Namespace: pv.Annotations[namespace], Name: pv.Annotations[name]}
		if ref.Name != "" {
			named = append(named, namedSecret{ref, volumeRef(pv), "metadata.annotations[" + name + "]"})
		}
	}
	annotated(names.AnnDeletionSecretName, names.AnnDeletionSecretNamespace)
	annotated(names.AnnControllerModifySecret, names.AnnControllerModifySecretNS)
	csi := pv.Spec.CSI
	if csi == nil {
		return named
	}
	for field, ref := range map[string]*corev1.SecretReference{
		"controllerPublishSecretRef": csi.ControllerPublishSecretRef,
		"controllerExpandSecretRef":  csi.ControllerExpandSecretRef,
		"nodeStageSecretRef":         csi.NodeStageSecretRef, "nodePublishSecretRef": csi.NodePublishSecretRef,
		"nodeExpandSecretRef": csi.NodeExpandSecretRef,
	} {
		if ref != nil {
			key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
			named = append(named, namedSecret{key, volumeRef(pv), "spec.csi." + field})
		}
	}
	slices.SortFunc(named, func(a, b namedSecret) int { return cmp.Compare(a.field, b.field) })
	return named
}

// secretsOfBound are those of a bound claim: of its volume and of its class.
func (c *Cluster) secretsOfBound(claim *corev1.PersistentVolumeClaim) []namedSecret {
	named := secretsOfClass(claim, c.index.classes[deref(claim.Spec.StorageClassName)])
	if pv := c.index.volumes[claim.Spec.VolumeName]; pv != nil {
		named = append(secretsOfVolume(pv), named...)
	}
	return named
}

// secretsOfSnapshot are those of the content and of the class of a VolumeSnapshot.
func (c *Cluster) secretsOfSnapshot(
	s *snapshotv1.VolumeSnapshot, content *snapshotv1.VolumeSnapshotContent,
) (named []namedSecret) {
	scope := secretref.SnapshotScope{Snapshot: keyOf(s)}
	if content != nil {
		scope.Content = content.Name
		ref := types.NamespacedName{
			Namespace: content.Annotations[names.AnnSnapshotDeletionSecretNamespace],
			Name:      content.Annotations[names.AnnSnapshotDeletionSecretName],
		}
		if ref.Name != "" {
			where := Ref{Kind: Content, Name: content.Name}
			named = append(named, namedSecret{
				ref, where, "metadata.annotations[" + names.AnnSnapshotDeletionSecretName + "]",
			})
		}
	}
	if class := c.index.snapshotClass[deref(s.Spec.VolumeSnapshotClassName)]; class != nil {
		for _, of := range []func(
			map[string]string, secretref.SnapshotScope,
		) (types.NamespacedName, *secretref.Problem){
			secretref.Snapshotter, secretref.SnapshotLister,
		} {
			if ref, problem := of(class.Parameters, scope); problem == nil && ref.Name != "" {
				named = append(named, namedSecret{
					ref, Ref{Kind: SnapshotClass, Name: class.Name}, "parameters of secrets",
				})
			}
		}
	}
	return named
}

func (c *Cluster) secretsOfAttached(va *storagev1.VolumeAttachment) []namedSecret {
	if pv := c.index.volumes[deref(va.Spec.Source.PersistentVolumeName)]; pv != nil {
		return secretsOfVolume(pv)
	}
	return nil
}

func (c *Cluster) secretsOfPod(pod *corev1.Pod) (named []namedSecret) {
	for _, volume := range podVolumes(pod) {
		if claim := c.index.claims[volume.claim]; claim != nil {
			named = append(named, c.secretsOfBound(claim)...)
		}
	}
	return named
}
