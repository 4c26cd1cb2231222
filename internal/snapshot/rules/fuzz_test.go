package snapshotting

import (
	"testing"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
	"github.com/purser-csi/purser/test/fuzzing"
)

// input builds the objects of this package from a fuzz input.
type input struct{ *fuzzing.Reader }

// words are what the rules look for, and odd texts.
var words = []string{
	"", "d", "n", "s", "g", "u", "c", "h", "gh", "\x00", "${volumesnapshot.name}", "Delete", "Retain", names.ParameterPrefix + "x",
	names.ParameterSnapshotterSecretName, names.ParameterSnapshotterSecretNamespace, names.ParameterSnapshotterListSecretName,
	names.ParameterGroupSnapshotterSecretName, names.ParameterGroupSnapshotterSecretNamespace, names.ParameterGroupSnapshotterGetName,
	names.AnnSnapshotBeingCreated, names.AnnSnapshotBeingDeleted, names.AnnGroupSnapshotHandle, names.AnnSnapshotDeletionSecretName,
	names.AnnGroupBeingCreated, names.AnnGroupBeingDeleted, names.AnnGroupDeletionSecretName,
	names.AnnDefaultSnapshotClass, names.AnnDefaultGroupClass, "true",
	names.FinalizerSnapshotContent, names.FinalizerSnapshotSource, names.FinalizerSnapshotBound, names.FinalizerSnapshotInGroup,
	names.FinalizerSnapshotClaim, names.FinalizerRestoreSource, names.FinalizerGroupContent, names.FinalizerGroupSnapshot,
}

func (t input) infos() (all []groupv1.VolumeSnapshotInfo) {
	for range t.Byte() % 3 {
		all = append(all, groupv1.VolumeSnapshotInfo{VolumeHandle: t.Text(), SnapshotHandle: t.Text()})
	}
	return all
}

func (t input) driver() string {
	if t.Bool() {
		return t.Text()
	}
	return "d"
}

func (t input) ref() corev1.ObjectReference {
	return corev1.ObjectReference{Namespace: t.Text(), Name: t.Text(), UID: types.UID(t.Text())}
}

func (t input) contentStatus() ContentStatus {
	s := ContentStatus{Handle: t.MaybeText(), Snapshots: t.infos()}
	if t.Bool() {
		s.Ready = new(t.Bool())
	}
	if t.Bool() {
		s.Error = &snapshotv1.VolumeSnapshotError{Message: t.MaybeText()}
	}
	return s
}

func (t input) content() *snapshotv1.VolumeSnapshotContent {
	c := &snapshotv1.VolumeSnapshotContent{ObjectMeta: t.Meta(), Spec: snapshotv1.VolumeSnapshotContentSpec{
		Driver: t.driver(), DeletionPolicy: snapshotv1.DeletionPolicy(t.Text()), VolumeSnapshotRef: t.ref(),
		VolumeSnapshotClassName: t.MaybeText(),
		Source:                  snapshotv1.VolumeSnapshotContentSource{VolumeHandle: t.MaybeText(), SnapshotHandle: t.MaybeText()},
	}}
	if t.Bool() {
		t.contentStatus().SetOn(c)
		c.Status.VolumeGroupSnapshotHandle = t.MaybeText()
	}
	return c
}

func (t input) groupContent() *groupv1.VolumeGroupSnapshotContent {
	c := &groupv1.VolumeGroupSnapshotContent{ObjectMeta: t.Meta(), Spec: groupv1.VolumeGroupSnapshotContentSpec{
		Driver: t.driver(), DeletionPolicy: snapshotv1.DeletionPolicy(t.Text()), VolumeGroupSnapshotRef: t.ref(),
		VolumeGroupSnapshotClassName: t.MaybeText(),
		Source:                       groupv1.VolumeGroupSnapshotContentSource{VolumeHandles: t.Texts()},
	}}
	if t.Bool() {
		c.Spec.Source.GroupSnapshotHandles = &groupv1.GroupSnapshotHandles{VolumeGroupSnapshotHandle: t.Text(), VolumeSnapshotHandles: t.Texts()}
	}
	if t.Bool() {
		t.contentStatus().SetOn(c)
	}
	return c
}

func (t input) class() *snapshotv1.VolumeSnapshotClass {
	if !t.Bool() {
		return nil
	}
	return &snapshotv1.VolumeSnapshotClass{
		ObjectMeta: t.Meta(), Driver: t.Text(), DeletionPolicy: snapshotv1.DeletionPolicy(t.Text()), Parameters: t.Pairs(),
	}
}

func (t input) groupClass() *groupv1.VolumeGroupSnapshotClass {
	class := t.class()
	if class == nil {
		return nil
	}
	return &groupv1.VolumeGroupSnapshotClass{
		ObjectMeta: class.ObjectMeta, Driver: class.Driver, DeletionPolicy: class.DeletionPolicy, Parameters: class.Parameters,
	}
}

func (t input) status() Status {
	s := Status{Content: t.MaybeText()}
	if t.Bool() {
		s.Ready, s.Created = new(t.Bool()), &metav1.Time{}
	}
	return s
}

func (t input) snapshot() *snapshotv1.VolumeSnapshot {
	vs := &snapshotv1.VolumeSnapshot{ObjectMeta: t.Meta()}
	vs.Spec.VolumeSnapshotClassName = t.MaybeText()
	vs.Spec.Source = snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: t.MaybeText(), VolumeSnapshotContentName: t.MaybeText()}
	if t.Bool() {
		t.status().SetOn(vs)
		vs.Status.VolumeGroupSnapshotName = t.MaybeText()
	}
	return vs
}

func (t input) group() *groupv1.VolumeGroupSnapshot {
	g := &groupv1.VolumeGroupSnapshot{ObjectMeta: t.Meta()}
	g.Spec.VolumeGroupSnapshotClassName = t.MaybeText()
	g.Spec.Source.VolumeGroupSnapshotContentName = t.MaybeText()
	if t.Bool() {
		g.Spec.Source.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{t.Text(): t.Text()}}
	}
	if t.Bool() {
		t.status().SetOn(g)
	}
	return g
}

func (t input) source() (s Source) {
	if t.Bool() {
		s.Claim = &corev1.PersistentVolumeClaim{ObjectMeta: t.Meta(), Spec: corev1.PersistentVolumeClaimSpec{VolumeName: t.Text()}}
		s.Claim.Status.Phase = corev1.ClaimBound
	}
	if t.Bool() {
		s.Volume = &corev1.PersistentVolume{ObjectMeta: t.Meta()}
		if t.Bool() {
			s.Volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: t.Text(), VolumeHandle: t.Text()}
		}
		if t.Bool() {
			s.Volume.Spec.ClaimRef = &corev1.ObjectReference{UID: types.UID(t.Text())}
		}
	}
	return s
}

// inputs are those of a VolumeSnapshot and those of a group.
func (t input) inputs() Inputs {
	source := t.source()
	s := Inputs{
		Settings: Settings{SourceMode: t.Bool(), Distributed: t.Bool()}, Key: types.NamespacedName{Namespace: "n", Name: "s"},
		Restoring: t.Texts(), Owned: t.Texts(), Claim: source.Claim, Volume: source.Volume,
	}
	if t.Bool() {
		s.Group, s.Groups = t.group(), true
	}
	for range t.Byte() % 2 {
		s.Others = append(s.Others, t.snapshot())
	}
	for range t.Byte() % 3 {
		if source := t.source(); source.Claim != nil {
			s.Sources = append(s.Sources, source)
		}
	}
	for _, info := range t.infos() {
		m := Member{Info: info}
		if t.Bool() {
			m.Content = t.content()
		}
		if t.Bool() {
			m.Volumes = []*corev1.PersistentVolume{{}}
		}
		s.Members = append(s.Members, m)
	}
	return s
}

// checkContent decides about a content and has each call answered. Every verdict has a known reason.
// No driver is called without the finalizer, nothing is deleted that another content needs (D-37), and
// a content that is being deleted is acted on.
func checkContent[C Contents, L Classes](t *testing.T, in input, s ContentState[C, L], others Sharing) {
	s, v, err := verdict.Settle(
		s, func(s ContentState[C, L]) ContentVerdict { return DecideContent(s, now) },
		func(s ContentState[C, L], _ []verdict.Ref) (ContentState[C, L], error) {
			s.Sharing = &others
			return s, nil
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	fuzzing.Known(t, v)
	todo, _ := v.(contentDo)
	c := contentOf(s.Content)
	for _, action := range todo.Actions {
		failure := &Failure{Code: codes.Code(in.Byte() % 17), NoAnswer: in.Bool(), Secret: types.NamespacedName{Name: in.Text()}}
		whole := Answer{Handle: in.Text(), Ready: in.Bool(), Snapshots: in.infos()}
		switch a := action.(type) {
		case CreateSnapshot:
			if (a.Mark != "") == has(c.Annotations, c.k.creating) || !hasFinalizer(c, c.k.contentFinalizer) {
				t.Errorf("called unprotected: %+v", s.Content)
			}
			fuzzing.Known(t, AfterCreate(s, whole, nil, now))
			fuzzing.Known(t, AfterCreate(s, Answer{}, failure, now))
		case FindSnapshot:
			fuzzing.Known(t, AfterFind(s, whole, nil, now))
			fuzzing.Known(t, AfterFind(s, Answer{}, failure, now))
		case DeleteSnapshot:
			if a.Handle == "" || s.Sharing == nil || !c.isRemovable() || sidecarViewOf(s, now).shared() != nil {
				t.Errorf("deleted: %+v", s.Content)
			}
			fuzzing.Known(t, AfterDelete(s, failure))
			fuzzing.Known(t, AfterDelete(s, nil))
		default:
		}
	}
	if c != nil && c.driver == "d" && c.isRemovable() && hasFinalizer(c, c.k.contentFinalizer) &&
		!has(c.Annotations, c.k.creating) && len(others.Groups)+len(others.Contents) == 0 && len(todo.Actions) == 0 {
		t.Errorf("a content that is being deleted is left alone (%s): %+v", v.Because().Reason, s.Content)
	}
}

// fuzz runs a check with an input of each content, and words.
func fuzz(f *testing.F, check func(*testing.T, input)) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x01\x01\x07\x01\x00\x01\x11\x01\x02\x01\x02\x02\x02\x01\x01"))
	f.Fuzz(func(t *testing.T, raw []byte) { check(t, input{fuzzing.New(raw, words...)}) })
}

func contentSettings(in input) ContentSettings {
	return ContentSettings{
		Driver: "d", Naming: Naming{"snapshot", max(int(int8(in.Byte())), -1)}, Lists: in.Bool(), ExtraMetadata: in.Bool(),
	}
}

// FuzzDecideContent: no content with missing fields makes the sidecar's decisions panic.
func FuzzDecideContent(f *testing.F) {
	fuzz(f, func(t *testing.T, in input) {
		s := ContentSnapshot{ContentSettings: contentSettings(in)}
		var others Sharing
		if in.Bool() {
			s.Content, s.Class = in.content(), in.class()
			for range in.Byte() % 3 {
				others.Contents = append(others.Contents, in.content())
			}
			if in.Bool() {
				s.Sharing = &others
			}
		}
		checkContent(t, in, s, others)
	})
}

// FuzzDecideGroupContent: the same for the content of a group.
func FuzzDecideGroupContent(f *testing.F) {
	fuzz(f, func(t *testing.T, in input) {
		s := GroupContent{ContentSettings: contentSettings(in)}
		var others Sharing
		if in.Bool() {
			s.Content, s.Class = in.groupContent(), in.groupClass()
			if other := in.groupContent(); IsSharing(s.Content, other) {
				others.Groups = append(others.Groups, other)
			}
			if other := in.content(); IsSharingSnapshot(s.Content, other) {
				others.Contents = append(others.Contents, other)
			}
			if in.Bool() {
				s.Sharing = &others
			}
		}
		checkContent(t, in, s, others)
	})
}

// checkState decides about an object, and about the answer to its mark. Every verdict has a known
// reason.
func checkState[O Requests, C Contents, L Classes](t *testing.T, s State[O, C, L], marked C) {
	s, v, err := verdict.Settle(
		s, func(s State[O, C, L]) Verdict { return DecideSnapshot(s, now) },
		func(s State[O, C, L], refs []verdict.Ref) (State[O, C, L], error) {
			for _, ref := range refs {
				s.Read = append(s.Read, ref.What)
			}
			return s, nil
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	fuzzing.Known(t, v)
	if s.Snapshot != nil && s.Content != nil {
		if next := AfterMark(s, marked); next != nil {
			fuzzing.Known(t, next)
		}
	}
}

// FuzzDecideSnapshot: no object with missing fields makes the snapshot-controller's decisions panic.
func FuzzDecideSnapshot(f *testing.F) {
	fuzz(f, func(t *testing.T, in input) {
		s := Snapshot{Inputs: in.inputs(), Class: in.class()}
		if in.Bool() {
			s.Snapshot = in.snapshot()
		}
		if in.Bool() {
			s.Content = in.content()
		}
		if class := in.class(); class != nil {
			s.Classes = append(s.Classes, class)
		}
		for range in.Byte() % 2 {
			s.Referring = append(s.Referring, in.content())
		}
		checkState(t, s, in.content())
	})
}

// FuzzDecideGroup: the same for a group.
func FuzzDecideGroup(f *testing.F) {
	fuzz(f, func(t *testing.T, in input) {
		s := Group{Inputs: in.inputs(), Class: in.groupClass()}
		if in.Bool() {
			s.Snapshot = in.group()
		}
		if in.Bool() {
			s.Content = in.groupContent()
		}
		if class := in.groupClass(); class != nil {
			s.Classes = append(s.Classes, class)
		}
		for range in.Byte() % 2 {
			s.Referring = append(s.Referring, in.groupContent())
		}
		checkState(t, s, in.groupContent())
	})
}
