package explain

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/secretref"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// explainSecret says which objects name a secret, and whether it is there. It never has a value.
func (c *Cluster) explainSecret(ref Ref) *Report {
	isThere := c.index.secrets[ref.key()]
	named := c.namersOf(ref)
	report := Report{
		Object: ref, Summary: "the secret is there; nothing of the volume plane names it",
		Next: "it can be deleted as far as volumes are concerned",
	}
	switch {
	case c.lacks(Secret) && !isThere:
		unread := c.absent(ref)
		if len(named) > 0 {
			unread.Summary += fmt.Sprintf("; it is named by %s", counted(len(named), "field"))
		}
		return &unread
	case !isThere && len(named) == 0:
		return nil
	case !isThere:
		f := findingAbout(ref, nil).waits(verdict.SecretMissing, Administrator,
			"an administrator who creates it: %s names it, and it does not exist", named[0].where)
		for _, n := range named[:min(len(named), mostNear)] {
			f.Evidence = append(f.Evidence, Evidence{n.where, n.field, n.ref.String(), "a secret that exists"})
		}
		f.Fix = []Step{{
			Text:    "Create the secret as the driver documents it",
			Command: shell.Command("kubectl -n %s get secrets", ref.Namespace),
		}}
		report.Summary, report.Findings = "the secret does not exist", []Finding{f}
	case len(named) > 0:
		report.Summary = fmt.Sprintf("the secret is there, and %s it", countedNames(len(named)))
		report.Next = "the calls that need it can be made; whether its values are right only the driver knows"
	}
	report = c.finish(report, Class, Volume)
	return &report
}

func countedNames(n int) string {
	if n == 1 {
		return "1 field names"
	}
	return fmt.Sprintf("%d fields name", n)
}

// namersOf returns each field that names a secret: of classes as far as they have no templates, of volumes,
// snapshot contents and pods.
func (c *Cluster) namersOf(ref Ref) (all []namedSecret) {
	add := func(secrets ...namedSecret) {
		for _, n := range secrets {
			if n.ref == ref.key() {
				all = append(all, n)
			}
		}
	}
	for _, class := range c.Classes {
		add(secretsInParameters(Ref{Kind: Class, Name: class.Name}, class.Parameters)...)
	}
	for _, class := range c.SnapshotClasses {
		add(secretsInParameters(Ref{Kind: SnapshotClass, Name: class.Name}, class.Parameters)...)
	}
	for _, class := range c.GroupClasses {
		add(secretsInParameters(Ref{Kind: GroupClass, Name: class.Name}, class.Parameters)...)
	}
	for _, claim := range c.Claims {
		if claim.Status.Phase != corev1.ClaimBound {
			add(secretsOfClass(claim, c.index.classes[deref(claim.Spec.StorageClassName)])...)
		}
	}
	for _, pv := range c.Volumes {
		add(secretsOfVolume(pv)...)
	}
	for _, content := range c.Contents {
		add(namedSecret{
			types.NamespacedName{
				Namespace: content.Annotations[names.AnnSnapshotDeletionSecretNamespace],
				Name:      content.Annotations[names.AnnSnapshotDeletionSecretName],
			},
			contentRef(content), "metadata.annotations[" + names.AnnSnapshotDeletionSecretName + "]",
		})
	}
	for _, pod := range c.Pods {
		add(secretsInPod(pod)...)
	}
	slices.SortStableFunc(all, func(a, b namedSecret) int {
		return cmp.Or(cmp.Compare(a.where.String(), b.where.String()), cmp.Compare(a.field, b.field))
	})
	return slices.Compact(all)
}

// secretsInParameters are the secrets that parameters of a class name without a template.
func secretsInParameters(where Ref, parameters map[string]string) (named []namedSecret) {
	for _, pair := range secretref.Pairs() {
		ref := types.NamespacedName{Namespace: parameters[pair.Namespace], Name: parameters[pair.Name]}
		if ref.Name != "" {
			named = append(named, namedSecret{ref, where, "parameters[" + pair.Name + "]"})
		}
	}
	return named
}

// secretsInPod are those that the volumes of a pod name.
func secretsInPod(pod *corev1.Pod) (named []namedSecret) {
	add := func(volume, name string) {
		if name != "" {
			ref := types.NamespacedName{Namespace: pod.Namespace, Name: name}
			named = append(named, namedSecret{ref, podRef(pod), "spec.volumes[" + volume + "]"})
		}
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Secret != nil {
			add(v.Name, v.Secret.SecretName)
		}
		if v.CSI != nil && v.CSI.NodePublishSecretRef != nil {
			add(v.Name, v.CSI.NodePublishSecretRef.Name)
		}
		if v.Projected != nil {
			for _, source := range v.Projected.Sources {
				if source.Secret != nil {
					add(v.Name, source.Secret.Name)
				}
			}
		}
	}
	return named
}
