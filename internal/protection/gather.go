package protection

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	protection "github.com/purser-csi/purser/internal/protection/rules"
)

const (
	// IndexClaimUsers finds the pods with a node by the claims that they name.
	IndexClaimUsers = "protectedClaim"
	// IndexClaimReferrers finds the pods, with or without a node, by the claims that they name.
	IndexClaimReferrers = "referencedClaim"
	// IndexAttributes finds claims and volumes by the VolumeAttributesClasses that they name.
	IndexAttributes = "attributesClass"
)

// ClaimIndexes are the indexes of [GatherClaim].
func ClaimIndexes() []kube.Index {
	return []kube.Index{kube.IndexBy(IndexClaimUsers, func(pod *corev1.Pod) []string {
		if pod.Spec.NodeName == "" {
			return nil
		}
		return protection.ClaimNames(pod)
	})}
}

// UsageIndexes are the indexes of [GatherUsage].
func UsageIndexes() []kube.Index {
	return []kube.Index{kube.IndexBy(IndexClaimReferrers, protection.ClaimNames)}
}

// ClassIndexes are the indexes of [GatherClass].
func ClassIndexes() []kube.Index {
	return []kube.Index{
		{Kind: &corev1.PersistentVolumeClaim{}, Field: IndexAttributes, Values: AttributesClasses},
		{Kind: &corev1.PersistentVolume{}, Field: IndexAttributes, Values: AttributesClasses},
	}
}

// AttributesClasses returns the VolumeAttributesClasses that a claim or a volume names.
func AttributesClasses(o client.Object) []string {
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		return protection.ClassesOfClaim(o)
	case *corev1.PersistentVolume:
		return protection.ClassesOfVolume(o)
	}
	return nil
}

// PodAnswer is the result of a live LIST of pods for one claim.
type PodAnswer = protection.Answer

// Memory is what a process knows about a claim that is being deleted, beyond the API objects.
type Memory struct {
	Answer *PodAnswer // from the API server, not used by a decision yet; nil for none
	Asked  time.Time  // when the API server was last asked; zero for never
}

// GatherClaim gathers the inputs of the decision about the protecting finalizer of a claim. The memory
// must be read before.
func GatherClaim(ctx context.Context, from client.Reader, m Memory, key kube.Key) (s protection.Claim, err error) {
	s.Answer, s.Asked = m.Answer, m.Asked
	s.Object, err = kube.GetSame(ctx, from, key, &corev1.PersistentVolumeClaim{})
	if err != nil || s.Object == nil {
		return s, err
	}
	s.Pods, err = podsOf(ctx, from, s.Object, IndexClaimUsers)
	return s, err
}

// podsOf returns the pods of an index that name a claim. The caller must not change them.
func podsOf(
	ctx context.Context, from client.Reader, claim *corev1.PersistentVolumeClaim, index string,
) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := from.List(ctx, &pods, client.InNamespace(claim.Namespace), client.MatchingFields{index: claim.Name},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("read the pods that name claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return pods.Items, nil
}

// GatherVolume gathers the inputs of the decision about the protecting finalizer of a
// PersistentVolume.
func GatherVolume(ctx context.Context, from client.Reader, key kube.Key) (s protection.Volume, err error) {
	s.Object, err = kube.GetSame(ctx, from, key, &corev1.PersistentVolume{})
	return s, err
}

// GatherClass gathers the inputs of the decision about the protecting finalizer of a
// VolumeAttributesClass.
func GatherClass(ctx context.Context, from client.Reader, key kube.Key) (s protection.Class, err error) {
	s.Object, err = kube.GetSame(ctx, from, key, &storagev1.VolumeAttributesClass{})
	if err != nil || s.Object == nil {
		return s, err
	}
	for _, list := range []client.ObjectList{&corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeList{}} {
		named := client.MatchingFields{IndexAttributes: key.Name}
		if err := from.List(ctx, list, named, client.UnsafeDisableDeepCopy); err != nil {
			return s, fmt.Errorf("read what uses VolumeAttributesClass %q: %w", key.Name, err)
		}
		s.Users = append(s.Users, classUsers(key.Name, list)...)
	}
	return s, nil
}

// ReadUsers lists the claims and volumes that name the class from the API server, for
// [protection.ReadUsers]. It stops at the first page that has any.
func ReadUsers(ctx context.Context, live client.Reader, class string) (*[]string, error) {
	for _, newList := range []func() client.ObjectList{
		func() client.ObjectList { return &corev1.PersistentVolumeClaimList{} },
		func() client.ObjectList { return &corev1.PersistentVolumeList{} },
	} {
		for page, err := range kube.Pages(ctx, live, newList) {
			if err != nil {
				return nil, fmt.Errorf("list what uses VolumeAttributesClass %q: %w", class, err)
			}
			if users := classUsers(class, page); len(users) > 0 {
				return &users, nil
			}
		}
	}
	return &[]string{}, nil
}

// classUsers returns the claims or volumes of a list that name the class.
func classUsers(class string, list client.ObjectList) (users []string) {
	note := func(kind string, o client.Object) {
		if slices.Contains(AttributesClasses(o), class) {
			users = append(users, kind+" "+strings.TrimPrefix(client.ObjectKeyFromObject(o).String(), "/"))
		}
	}
	switch list := list.(type) {
	case *corev1.PersistentVolumeClaimList:
		for i := range list.Items {
			note("claim", &list.Items[i])
		}
	case *corev1.PersistentVolumeList:
		for i := range list.Items {
			note("PersistentVolume", &list.Items[i])
		}
	}
	return users
}

// GatherUsage gathers the inputs of the decision about the condition Unused of a claim.
func GatherUsage(ctx context.Context, from client.Reader, key kube.Key) (s protection.Usage, err error) {
	s.Object, err = kube.GetSame(ctx, from, key, &corev1.PersistentVolumeClaim{})
	if err != nil || s.Object == nil {
		return s, err
	}
	if s.Volume, err = kube.Get(ctx, from, types.NamespacedName{Name: s.Object.Spec.VolumeName},
		&corev1.PersistentVolume{}); err != nil {
		return s, err
	}
	s.Pods, err = podsOf(ctx, from, s.Object, IndexClaimReferrers)
	return s, err
}

// ClaimReferrers returns the names of the pods that refer to the claim and have not ended, with or
// without a node.
func ClaimReferrers(ctx context.Context, from client.Reader, claim *corev1.PersistentVolumeClaim) ([]string, error) {
	pods, err := podsOf(ctx, from, claim, IndexClaimReferrers)
	return protection.Referrers(pods, claim), err
}
