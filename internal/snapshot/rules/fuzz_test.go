package snapshotting

import (
	"slices"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/fuzzing"
)

// input builds the objects of this package from a fuzz input.
type input struct{ *fuzzing.Reader }

// words are what the rules look for, and odd texts.
var words = []string{
	"", "d", "n", "s", "u", "c", "h", "\x00", "${volumesnapshot.name}", "Delete", "Retain", names.ParameterPrefix + "x",
	names.ParameterSnapshotterSecretName, names.ParameterSnapshotterSecretNamespace, names.ParameterSnapshotterListSecretName,
	names.AnnSnapshotBeingCreated, names.AnnSnapshotBeingDeleted, names.AnnGroupSnapshotHandle, names.AnnSnapshotDeletionSecretName,
	names.FinalizerSnapshotContent, names.FinalizerSnapshotSource, names.FinalizerSnapshotBound, names.FinalizerSnapshotInGroup,
	names.FinalizerSnapshotClaim, names.FinalizerRestoreSource,
}

func (t input) content() *snapshotv1.VolumeSnapshotContent {
	c := &snapshotv1.VolumeSnapshotContent{ObjectMeta: t.Meta()}
	c.Spec.Driver, c.Spec.DeletionPolicy = "d", snapshotv1.DeletionPolicy(t.Text())
	if t.Bool() {
		c.Spec.Driver = t.Text()
	}
	c.Spec.VolumeSnapshotRef = corev1.ObjectReference{Namespace: t.Text(), Name: t.Text(), UID: types.UID(t.Text())}
	c.Spec.VolumeSnapshotClassName = t.MaybeText()
	c.Spec.Source = snapshotv1.VolumeSnapshotContentSource{VolumeHandle: t.MaybeText(), SnapshotHandle: t.MaybeText()}
	if t.Bool() {
		c.Status = &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: t.MaybeText(), VolumeGroupSnapshotHandle: t.MaybeText()}
		if t.Bool() {
			c.Status.ReadyToUse = new(t.Bool())
		}
		if t.Bool() {
			c.Status.Error = &snapshotv1.VolumeSnapshotError{Message: t.MaybeText()}
		}
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

func (t input) snapshot() *snapshotv1.VolumeSnapshot {
	vs := &snapshotv1.VolumeSnapshot{ObjectMeta: t.Meta()}
	vs.Spec.VolumeSnapshotClassName = t.MaybeText()
	vs.Spec.Source = snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: t.MaybeText(), VolumeSnapshotContentName: t.MaybeText()}
	if t.Bool() {
		vs.Status = &snapshotv1.VolumeSnapshotStatus{BoundVolumeSnapshotContentName: t.MaybeText(), VolumeGroupSnapshotName: t.MaybeText()}
		if t.Bool() {
			vs.Status.ReadyToUse, vs.Status.CreationTime = new(t.Bool()), &metav1.Time{}
		}
	}
	return vs
}

// FuzzDecideContent: no content with missing fields makes the sidecar's decisions panic, and every
// one has a known reason. No driver is called without the finalizer, no snapshot is deleted that
// another content needs (D-37), and a content that is being deleted is acted on.
func FuzzDecideContent(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x01\x01\x07\x01\x00\x01\x11\x01\x02\x01\x02\x02\x02\x01\x01"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := input{fuzzing.New(raw, words...)}
		s := ContentSnapshot{ContentSettings: ContentSettings{Driver: "d", Naming: Naming{"snapshot", int(int8(in.Byte()))}, Lists: in.Bool()}}
		s.Naming.Length = max(s.Naming.Length, -1)
		if in.Bool() {
			s.Content, s.Class, s.SharingRead = in.content(), in.class(), in.Bool()
			for range in.Byte() % 3 {
				s.SameHandle = append(s.SameHandle, in.content())
			}
			LacksFinalizer(s.Content)
		}
		v := DecideContent(s, now)
		fuzzing.Known(t, v)
		todo, _ := v.(contentDo)
		for _, action := range todo.Actions {
			failure := &Failure{Code: codes.Code(in.Byte() % 17), NoAnswer: in.Bool(), Secret: types.NamespacedName{Name: in.Text()}}
			switch a := action.(type) {
			case CreateSnapshot:
				if a.Mark == has(s.Content.Annotations, names.AnnSnapshotBeingCreated) || !slices.Contains(s.Content.Finalizers, names.FinalizerSnapshotContent) {
					t.Errorf("called unprotected: %+v", s.Content)
				}
				fuzzing.Known(t, AfterCreate(s, Answer{Handle: in.Text(), Ready: in.Bool()}, nil, now))
				fuzzing.Known(t, AfterCreate(s, Answer{}, failure, now))
			case FindSnapshot:
				fuzzing.Known(t, AfterFind(s, Answer{Handle: in.Text(), Ready: in.Bool()}, nil, now))
				fuzzing.Known(t, AfterFind(s, Answer{}, failure, now))
			case ListSameHandle:
				fuzzing.Known(t, AfterList(s, s.SameHandle, now))
			case DeleteSnapshot:
				if a.Handle == "" || !s.SharingRead || !IsRemovable(s.Content) || slices.ContainsFunc(s.SameHandle, NeedsSnapshot) {
					t.Errorf("deleted: %+v", s.Content)
				}
				fuzzing.Known(t, AfterDelete(s, failure))
				fuzzing.Known(t, AfterDelete(s, nil))
			default:
			}
		}
		if c := s.Content; c != nil && c.Spec.Driver == "d" && IsRemovable(c) && slices.Contains(c.Finalizers, names.FinalizerSnapshotContent) &&
			!has(c.Annotations, names.AnnSnapshotBeingCreated) && len(todo.Actions) == 0 {
			t.Errorf("a content that is being deleted is left alone (%s): %+v", v.Because().Reason, c)
		}
	})
}

// FuzzDecideSnapshot: no object with missing fields makes the snapshot-controller's decisions panic,
// and every one has a known reason.
func FuzzDecideSnapshot(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x01\x01\x07\x01\x00\x01\x11\x01\x02\x01\x02\x02\x02\x01\x01"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := input{fuzzing.New(raw, words...)}
		s := Snapshot{Settings: Settings{SourceMode: in.Bool(), Distributed: in.Bool()}, Key: types.NamespacedName{Namespace: "n", Name: "s"}}
		if in.Bool() {
			s.Snapshot, s.Class, s.Group = in.snapshot(), in.class(), GroupState(in.Byte()%3)
			s.Restoring, s.Others = in.Texts(), in.Texts()
			if in.Bool() {
				s.Content = in.content()
			}
			if in.Bool() {
				s.Claim = &corev1.PersistentVolumeClaim{ObjectMeta: in.Meta(), Spec: corev1.PersistentVolumeClaimSpec{VolumeName: in.Text()}}
				s.Claim.Status.Phase = corev1.ClaimBound
			}
			if in.Bool() {
				s.Volume = &corev1.PersistentVolume{ObjectMeta: in.Meta()}
				if in.Bool() {
					s.Volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: in.Text(), VolumeHandle: in.Text()}
				}
				if in.Bool() {
					s.Volume.Spec.ClaimRef = &corev1.ObjectReference{UID: types.UID(in.Text())}
				}
			}
			if class := in.class(); class != nil {
				s.Defaults = append(s.Defaults, *class)
			}
		}
		for range in.Byte() % 2 {
			s.Unprotected = append(s.Unprotected, in.content())
		}
		v := DecideSnapshot(s, time.Unix(0, 0))
		fuzzing.Known(t, v)
		if s.Content != nil {
			marked := in.content()
			if next := AfterMark(s, marked); next != nil && s.Snapshot != nil {
				fuzzing.Known(t, next)
			}
		}
	})
}
