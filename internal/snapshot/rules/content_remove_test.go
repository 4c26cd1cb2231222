package snapshotting

import (
	"strings"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/verdicttest"
)

// SN-E1, SN-E6: a deletion that cannot go on says what holds it and what to do, also where nothing
// can be created in the namespace of the secret.
func TestDeletionSaysWhatHoldsIt(t *testing.T) {
	secret := types.NamespacedName{Namespace: "n", Name: "x"}
	deleted := ContentSnapshot{Content: content(terminating, annotated(names.AnnSnapshotBeingCreated))}
	for name, tc := range map[string]struct {
		v     ContentVerdict
		words []string
	}{
		"secret of CreateSnapshot": {
			AfterCreate(deleted, Answer{}, &Failure{NoAnswer: true, Secret: secret}, now),
			[]string{`"n/x"`, names.AnnSnapshotDeletionSecretName, "remove the annotation " + names.AnnSnapshotBeingCreated, "stays in the backend"},
		},
		"class": {
			AfterCreate(deleted, Answer{}, &Failure{NoAnswer: true}, now),
			[]string{"Create what is missing again", names.AnnSnapshotBeingCreated},
		},
		"secret of DeleteSnapshot": {
			AfterDelete(deleted, &Failure{Code: codes.Unauthenticated, Secret: secret}),
			[]string{`"n/x"`, names.AnnSnapshotDeletionSecretNamespace},
		},
	} {
		v := tc.v
		if todo, is := v.(contentDo); is {
			v = todo.Then
		}
		for _, word := range tc.words {
			if !strings.Contains(v.Because().Text(), word) {
				t.Errorf("%s: %q lacks %q", name, v.Because().Text(), word)
			}
		}
	}
	alive := ContentSnapshot{Content: content(annotated(names.AnnSnapshotBeingCreated))}
	if v := AfterCreate(alive, Answer{}, &Failure{NoAnswer: true, Secret: secret}, now); strings.Contains(v.(contentDo).Then.Because().Text(), "remove") {
		t.Error("a content that is not being deleted gets the advice")
	}
}

// SN-V3: an imported content of policy Delete has the finalizer before it is bound.
func TestLacksFinalizer(t *testing.T) {
	for _, tc := range []struct {
		name    string
		content *snapshotv1.VolumeSnapshotContent
		want    bool
	}{
		{"SN-V3: bound", content(unfinalized), true},
		{"SN-V3: bound, retained", content(unfinalized, retained), true},
		{"has it", content(), false},
		{"is being deleted", content(unfinalized, terminating), false},
		{"SN-E1: imported", content(unfinalized, static, unbound), true},
		{"imported, retained", content(unfinalized, static, unbound, retained), false},
		{"not imported, and without a uid", content(unfinalized, unbound), false},
	} {
		if got := contentOf(tc.content).lacksFinalizer(); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}

// An imported content gets the finalizer while its VolumeSnapshot does not exist. With it, the
// content is bound first, and a second write of the same version would be a conflict.
func TestImportedContentGetsItsFinalizer(t *testing.T) {
	imported := []*snapshotv1.VolumeSnapshotContent{content(unfinalized, static, unbound)}
	if got := verdicttest.Show(DecideSnapshot(Snapshot{Referring: imported}, now)); got != "do ProtectContent; nothing SnapshotIdle" {
		t.Errorf("without a VolumeSnapshot: %s", got)
	}
	s := Snapshot{Referring: imported, Snapshot: &snapshotv1.VolumeSnapshot{}}
	if got := verdicttest.Show(DecideSnapshot(s, now)); strings.Contains(got, "ProtectContent") {
		t.Errorf("with a VolumeSnapshot: %s", got)
	}
}
