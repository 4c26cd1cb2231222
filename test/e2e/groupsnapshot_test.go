package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A group snapshot of the claims that an expression selects (SN-H1): it has one ready member for
// each, and the members are deleted with the group.
func TestGroupSnapshot(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, shared(t))
	for _, name := range []string{"data", "log", "other"} {
		claim := b.newClaim(name, "")
		claim.Labels = map[string]string{"part": name}
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("1Mi") // the volume gets 2Mi
		must(t, b.Client.Create(t.Context(), claim))
		b.awaitBound(t, claim)
	}
	must(t, b.Client.Create(t.Context(), &groupv1.VolumeGroupSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: b.name}, Driver: builtIn, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
	}))
	group := &groupv1.VolumeGroupSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: "group"},
		Spec: groupv1.VolumeGroupSnapshotSpec{
			VolumeGroupSnapshotClassName: new(b.name),
			Source: groupv1.VolumeGroupSnapshotSource{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "part", Operator: metav1.LabelSelectorOpIn, Values: []string{"data", "log"}},
			}}},
		},
	}
	must(t, b.Client.Create(t.Context(), group))
	eventually(t, func(ctx context.Context) error {
		if err := b.Client.Get(ctx, client.ObjectKeyFromObject(group), group); err != nil {
			return err
		}
		if group.Status == nil || !ptr.Deref(group.Status.ReadyToUse, false) {
			return fmt.Errorf("group has status %+v; its events:\n%s", group.Status, b.story(ctx, group))
		}
		return nil
	})
	var members snapshotv1.VolumeSnapshotList
	must(t, b.Client.List(t.Context(), &members, client.InNamespace(b.name)))
	var sources []string
	for i := range members.Items {
		member := &members.Items[i]
		b.awaitUsable(t, member)
		sources = append(sources, *member.Spec.Source.PersistentVolumeClaimName)
	}
	if slices.Sort(sources); !slices.Equal(sources, []string{"data", "log"}) {
		t.Errorf("snapshots of the claims %v, want data and log", sources)
	}
	b.restoreMember(t, &members.Items[0])
	content := &groupv1.VolumeGroupSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: *group.Status.BoundVolumeGroupSnapshotContentName}}
	must(t, b.Client.Delete(t.Context(), group))
	b.awaitGone(t, group)
	b.awaitGone(t, content)
	for i := range members.Items {
		b.awaitGone(t, &members.Items[i])
	}
	var contents snapshotv1.VolumeSnapshotContentList
	must(t, b.Client.List(t.Context(), &contents))
	for i := range contents.Items {
		if contents.Items[i].Spec.VolumeSnapshotRef.Namespace == b.name {
			t.Errorf("content %s is left", contents.Items[i].Name)
		}
	}
}

// restoreMember creates a claim of the size of the source's from the member of a group.
func (b testNamespace) restoreMember(t *testing.T, member *snapshotv1.VolumeSnapshot) {
	t.Helper()
	claim := b.newClaim("restored", "")
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("1Mi")
	claim.Spec.DataSource = &corev1.TypedLocalObjectReference{
		APIGroup: new(snapshotv1.GroupName), Kind: "VolumeSnapshot", Name: member.Name,
	}
	must(t, b.Client.Create(t.Context(), claim))
	b.awaitBound(t, claim)
	b.delete(t, claim)
}
