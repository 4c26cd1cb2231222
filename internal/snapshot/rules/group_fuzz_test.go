package snapshotting

import (
	"slices"
	"testing"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/fuzzing"
)

// groupInput builds the objects of this package from a fuzz input.
type groupInput struct{ *fuzzing.Reader }

// groupWords are what the rules look for, and odd texts.
var groupWords = []string{
	"", "d", "n", "g", "u", "c", "h", "gh", "s-a", "Delete", "Retain", names.ParameterPrefix + "x",
	names.ParameterGroupSnapshotterSecretName, names.ParameterGroupSnapshotterSecretNamespace, names.ParameterGroupSnapshotterGetName,
	names.AnnGroupBeingCreated, names.AnnGroupBeingDeleted, names.AnnGroupSnapshotHandle, names.AnnGroupDeletionSecretName,
	names.FinalizerGroupContent, names.FinalizerGroupSnapshot,
}

func (t groupInput) infos() (all []groupv1.VolumeSnapshotInfo) {
	for range t.Byte() % 3 {
		all = append(all, groupv1.VolumeSnapshotInfo{VolumeHandle: t.Text(), SnapshotHandle: t.Text()})
	}
	return all
}

func (t groupInput) content() *groupv1.VolumeGroupSnapshotContent {
	c := &groupv1.VolumeGroupSnapshotContent{ObjectMeta: t.Meta()}
	c.Spec.Driver, c.Spec.DeletionPolicy = "d", snapshotv1.DeletionPolicy(t.Text())
	c.Spec.VolumeGroupSnapshotRef = corev1.ObjectReference{Namespace: t.Text(), Name: t.Text(), UID: types.UID(t.Text())}
	c.Spec.VolumeGroupSnapshotClassName = t.MaybeText()
	c.Spec.Source.VolumeHandles = t.Texts()
	if t.Bool() {
		c.Spec.Source.GroupSnapshotHandles = &groupv1.GroupSnapshotHandles{VolumeGroupSnapshotHandle: t.Text(), VolumeSnapshotHandles: t.Texts()}
	}
	if t.Bool() {
		c.Status = &groupv1.VolumeGroupSnapshotContentStatus{VolumeGroupSnapshotHandle: t.MaybeText(), VolumeSnapshotInfoList: t.infos()}
		if t.Bool() {
			c.Status.ReadyToUse = new(t.Bool())
		}
		if t.Bool() {
			c.Status.Error = &snapshotv1.VolumeSnapshotError{Message: t.MaybeText()}
		}
	}
	return c
}

func (t groupInput) class() *groupv1.VolumeGroupSnapshotClass {
	if !t.Bool() {
		return nil
	}
	class := &groupv1.VolumeGroupSnapshotClass{ObjectMeta: t.Meta(), Driver: t.Text(), Parameters: map[string]string{}}
	for range t.Byte() % 4 {
		class.Parameters[t.Text()] = t.Text()
	}
	return class
}

func (t groupInput) single() *snapshotv1.VolumeSnapshotContent {
	c := &snapshotv1.VolumeSnapshotContent{ObjectMeta: t.Meta()}
	c.Spec.Driver, c.Spec.Source.SnapshotHandle = t.Text(), t.MaybeText()
	if t.Bool() {
		c.Status = &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: t.MaybeText(), VolumeGroupSnapshotHandle: t.MaybeText()}
	}
	return c
}

// FuzzDecideGroupContent: no content with missing fields makes the sidecar's decisions panic, every
// one has a known reason, and no group is deleted that another content needs (D-37).
func FuzzDecideGroupContent(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x01\x01\x07\x01\x00\x01\x11\x01\x02\x01\x02\x02\x02\x01\x01"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := groupInput{fuzzing.New(raw, groupWords...)}
		s := Content{GroupContentSettings: GroupContentSettings{Driver: "d", Naming: Naming{Prefix: "g", Length: -1}, ExtraMetadata: in.Bool()}}
		var others Sharing
		if in.Bool() {
			s.Content, s.Class = in.content(), in.class()
			GroupLacksFinalizer(s.Content)
			if other := in.content(); IsSharing(s.Content, other) {
				others.Groups = append(others.Groups, other)
			}
			if other := in.single(); IsSharingSnapshot(s.Content, other) {
				others.Contents = append(others.Contents, other)
			}
			if in.Bool() {
				s.Sharing = &others
			}
		}
		v := DecideGroupContent(s, groupNow)
		fuzzing.Known(t, v)
		todo, _ := v.(contentDo)
		for _, action := range todo.Actions {
			failure := &Failure{Code: codes.Code(in.Byte() % 17), NoAnswer: in.Bool(), Secret: types.NamespacedName{Name: in.Text()}}
			switch action.(type) {
			case CreateGroup:
				fuzzing.Known(t, GroupAfterCreate(s, GroupAnswer{Handle: in.Text(), Ready: in.Bool(), Snapshots: in.infos()}, nil, groupNow))
				fuzzing.Known(t, GroupAfterCreate(s, GroupAnswer{}, failure, groupNow))
			case FindGroup:
				fuzzing.Known(t, GroupAfterFind(s, GroupAnswer{Handle: in.Text(), Ready: in.Bool()}, nil, groupNow))
				fuzzing.Known(t, GroupAfterFind(s, GroupAnswer{}, failure, groupNow))
			case ListSharing:
				fuzzing.Known(t, GroupAfterList(s, others, groupNow))
			case DeleteGroup:
				if s.Sharing == nil || !isRemovable(s.Content) || sharing(s) != nil {
					t.Errorf("deleted: %+v", s.Content)
				}
				fuzzing.Known(t, GroupAfterDelete(s, failure))
			default:
			}
		}
		if c := s.Content; c != nil && isRemovable(c) && slices.Contains(c.Finalizers, names.FinalizerGroupContent) && len(others.Groups)+len(others.Contents) == 0 {
			if _, marked := c.Annotations[names.AnnGroupBeingCreated]; !marked && len(todo.Actions) == 0 {
				t.Errorf("a content that is being deleted is left alone (%s): %+v", v.Because().Reason, c)
			}
		}
	})
}

// FuzzDecideGroup: no object with missing fields makes the snapshot-controller's decisions panic,
// and every one has a known reason.
func FuzzDecideGroup(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x01\x01\x07\x01\x00\x01\x11\x01\x02\x01\x02\x02\x02\x01\x01"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := groupInput{fuzzing.New(raw, groupWords...)}
		s := Group{GroupSettings: GroupSettings{SourceMode: in.Bool()}, Key: types.NamespacedName{Namespace: "n", Name: "g"}, Class: in.class()}
		if in.Bool() {
			s.Snapshot = &groupv1.VolumeGroupSnapshot{ObjectMeta: in.Meta()}
			s.Snapshot.Spec.VolumeGroupSnapshotClassName = in.MaybeText()
			s.Snapshot.Spec.Source.VolumeGroupSnapshotContentName = in.MaybeText()
			if in.Bool() {
				s.Snapshot.Spec.Source.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{in.Text(): in.Text()}}
			}
			if in.Bool() {
				s.Snapshot.Status = &groupv1.VolumeGroupSnapshotStatus{BoundVolumeGroupSnapshotContentName: in.MaybeText()}
			}
		}
		if in.Bool() {
			s.Content = in.content()
			for _, info := range in.infos() {
				m := Member{Info: info}
				if in.Bool() {
					m.Content = in.single()
				}
				if in.Bool() {
					m.Volumes = []*corev1.PersistentVolume{{}}
				}
				s.Members = append(s.Members, m)
			}
		}
		for range in.Byte() % 3 {
			source := Source{Claim: &corev1.PersistentVolumeClaim{ObjectMeta: in.Meta(), Spec: corev1.PersistentVolumeClaimSpec{VolumeName: in.Text()}}}
			source.Claim.Status.Phase = corev1.ClaimBound
			if in.Bool() {
				source.Volume = &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{UID: source.Claim.UID}}}
				source.Volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: in.Text(), VolumeHandle: in.Text()}
			}
			s.Sources = append(s.Sources, source)
		}
		s.Owned, s.Restoring = in.Texts(), in.Texts()
		if in.Bool() {
			s.Unprotected = append(s.Unprotected, in.content())
		}
		fuzzing.Known(t, DecideGroup(s, groupNow))
		if s.Snapshot != nil && s.Content != nil {
			if next := GroupAfterMark(s, in.content()); next != nil {
				fuzzing.Known(t, next)
			}
		}
	})
}
