package snapshot

import (
	"context"
	"crypto/sha256"
	"fmt"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

// groupScenarios are about snapshots of groups of volumes (section 12 of the rows).
func groupScenarios() (all []scenario) {
	for _, class := range []string{"delete", "retain"} {
		all = append(all,
			scenario{"group-ready-" + class, func(s *scene) {
				s.twoClaims()
				s.groupReady(s.takeGroup(class))
			}},
			scenario{"group-removed-" + class, func(s *scene) {
				s.twoClaims()
				group := s.takeGroup(class)
				s.groupReady(group)
				s.delete(group)
				s.gone(group)
			}})
	}
	return append(all,
		scenario{"group-after-internal", func(s *scene) {
			s.main.set(s.own("one"), script{failures: []codes.Code{codes.Internal}, size: 1 << 30})
			s.twoClaims()
			s.groupReady(s.takeGroup("delete"))
		}},
		scenario{"group-uncertain-and-removed", func(s *scene) { // SN-K1
			s.main.set(s.own("one"), script{failures: []codes.Code{codes.DeadlineExceeded}, forever: true, made: true, size: 1 << 30})
			s.twoClaims()
			group := s.takeGroup("delete")
			s.groupFailed(group)
			s.delete(group)
			s.main.heal(s.own("one"))
			s.gone(group)
		}},
		scenario{"group-ready-after-two-polls", func(s *scene) {
			s.main.set(s.own("one"), script{unready: 2, size: 1 << 30})
			s.twoClaims()
			s.groupReady(s.takeGroup("delete"))
		}},
		scenario{"group-class-absent", func(s *scene) {
			s.twoClaims()
			s.groupFailed(s.takeGroup("absent"))
		}},
		scenario{"group-class-comes-later", func(s *scene) {
			s.twoClaims()
			group := s.takeGroup("later")
			s.groupFailed(group)
			s.groupClass("later", remove, nil)
			s.groupReady(group)
		}},
		scenario{"group-of-two-drivers", func(s *scene) { // SN-G7
			s.twoClaims()
			s.pair("three", listDriver)
			s.inGroup("three")
			s.groupFailed(s.takeGroup("delete"))
		}},
		scenario{"group-parameters-and-secret", func(s *scene) {
			s.twoClaims()
			s.secret("group-secret")
			s.groupClass("secret", remove, map[string]string{
				"a": "1", names.ParameterGroupSnapshotterSecretName: "group-secret", names.ParameterGroupSnapshotterSecretNamespace: s.name,
			})
			group := s.takeGroup("secret")
			s.groupReady(group)
			s.delete(group)
			s.gone(group)
		}},
		scenario{"group-member-removed", func(s *scene) { // SN-D4
			s.twoClaims()
			group := s.takeGroup("delete")
			s.groupReady(group)
			s.delete(&snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: "snapshot-" + s.member(group, "one")}})
		}},
		scenario{"group-removed-while-a-member-is-restored", func(s *scene) { // SN-G4
			s.twoClaims()
			group := s.takeGroup("delete")
			s.groupReady(group)
			s.restoring("restored", "snapshot-"+s.member(group, "one"), false)
			s.delete(group)
		}})
}

// twoClaims are two bound claims that the selector of the group selects, and classes of both
// policies.
func (s *scene) twoClaims() {
	for _, name := range []string{"one", "two"} {
		s.pair(name, mainDriver)
		s.inGroup(name)
	}
	s.pair("other", mainDriver)
	s.groupClass("delete", remove, nil)
	s.groupClass("retain", retain, nil)
}

func (s *scene) inGroup(claim string) {
	s.do(func(ctx context.Context) error {
		return s.Patch(ctx, s.claim(claim), merge(`{"metadata":{"labels":{"in":"group"}}}`))
	})
}

func (s *scene) groupClass(name string, policy snapshotv1.DeletionPolicy, parameters map[string]string) {
	s.create(&groupv1.VolumeGroupSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: s.own(name)}, Driver: mainDriver, DeletionPolicy: policy, Parameters: parameters,
	})
}

// takeGroup creates a VolumeGroupSnapshot of the claims with the label.
func (s *scene) takeGroup(class string) *groupv1.VolumeGroupSnapshot {
	for _, name := range []string{"one", "two"} { // both programs read claims from a cache
		until(s, s.claim(name), "bound", func(c *corev1.PersistentVolumeClaim) bool {
			return c.Status.Phase == corev1.ClaimBound && c.Labels["in"] == "group"
		})
	}
	group := &groupv1.VolumeGroupSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: "group"},
		Spec: groupv1.VolumeGroupSnapshotSpec{
			VolumeGroupSnapshotClassName: new(s.own(class)),
			Source:                       groupv1.VolumeGroupSnapshotSource{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"in": "group"}}},
		},
	}
	s.create(group)
	s.known = append(s.known, string(group.UID), "<uid:vgs/group>")
	for _, claim := range []string{"one", "two", "other"} {
		s.known = append(s.known, s.member(group, claim), "<member:"+claim+">")
	}
	return group
}

// member returns what the names of a member and of its content end with (SN-N15).
func (s *scene) member(group *groupv1.VolumeGroupSnapshot, claim string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(string(group.UID)+s.own(claim))))
}

// groupReady waits until group and members are ready.
func (s *scene) groupReady(group *groupv1.VolumeGroupSnapshot) {
	until(s, group, "ready", func(g *groupv1.VolumeGroupSnapshot) bool {
		return g.Status != nil && ptr.Deref(g.Status.ReadyToUse, false)
	})
	for _, claim := range []string{"one", "two"} {
		vs := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: "snapshot-" + s.member(group, claim)}}
		s.ready(vs)
		if s.problem == nil { // else the uid may be empty
			s.known = append(s.known, string(vs.UID), "<uid:member/"+claim+">")
		}
	}
}

func (s *scene) groupFailed(group *groupv1.VolumeGroupSnapshot) {
	until(s, group, "failed", func(g *groupv1.VolumeGroupSnapshot) bool { return g.Status != nil && g.Status.Error != nil })
}

// groupObjects reads the objects of groups of the scenario.
func (s *scene) groupObjects(ctx context.Context) (groups *groupv1.VolumeGroupSnapshotList, contents []groupv1.VolumeGroupSnapshotContent, err error) {
	groups = &groupv1.VolumeGroupSnapshotList{}
	if err := s.List(ctx, groups, client.InNamespace(s.name)); err != nil {
		return nil, nil, err
	}
	all := &groupv1.VolumeGroupSnapshotContentList{}
	if err := s.List(ctx, all); err != nil {
		return nil, nil, err
	}
	for i := range all.Items {
		if all.Items[i].Spec.VolumeGroupSnapshotRef.Namespace == s.name {
			contents = append(contents, all.Items[i])
		}
	}
	return groups, contents, nil
}
