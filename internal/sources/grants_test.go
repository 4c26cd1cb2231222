package sources

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	source "github.com/purser-csi/purser/internal/sources/rules"
)

// grantServer serves ReferenceGrants in one version, and no other object.
type grantServer struct {
	client.Reader
	version   string
	forbidden bool
	asked     []string
}

func (g *grantServer) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	kind := list.GetObjectKind().GroupVersionKind()
	g.asked = append(g.asked, kind.Version)
	switch {
	case g.forbidden:
		return apierrors.NewForbidden(schema.GroupResource{Group: names.GatewayGroup, Resource: "referencegrants"}, "", nil)
	case kind.Version != g.version:
		return &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
	}
	list.(*unstructured.UnstructuredList).Items = []unstructured.Unstructured{{Object: map[string]any{"spec": map[string]any{
		"from": []any{map[string]any{"group": "", "kind": "PersistentVolumeClaim", "namespace": "crew"}},
		"to":   []any{map[string]any{"group": names.SnapshotGroup, "kind": "VolumeSnapshot", "name": "s"}, "malformed"},
	}}}}
	return nil
}

func (g *grantServer) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "objects"}, key.Name)
}

// H-46, RB-9: v1 where it is served, else v1beta1; an attachment that an administrator ended is in
// the result.
func TestReferenceGrants(t *testing.T) {
	want := []source.Grant{{
		From: []source.GrantFrom{{Kind: "PersistentVolumeClaim", Namespace: "crew"}},
		To:   []source.GrantTo{{Group: names.SnapshotGroup, Kind: "VolumeSnapshot", Name: "s"}, {}},
	}}
	ref := source.Ref{
		Group: names.SnapshotGroup, Kind: source.KindSnapshot, NamespacedName: types.NamespacedName{Namespace: "far", Name: "s"},
	}
	for _, tc := range []struct {
		name   string
		server grantServer
		grants []source.Grant
		unread source.Unread
		asked  []string
	}{
		{"v1", grantServer{version: "v1"}, want, source.Unread{}, []string{"v1"}},
		{"v1beta1", grantServer{version: "v1beta1"}, want, source.Unread{}, []string{"v1", "v1beta1"}},
		{"not served", grantServer{}, nil, source.Unread{Resource: source.GrantResource}, []string{"v1", "v1beta1"}},
		{"forbidden", grantServer{forbidden: true}, nil, source.Unread{Resource: source.GrantResource, Forbidden: true}, []string{"v1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := ReadFor(t.Context(), &tc.server, ref, "crew")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.grants, s.Grants) + cmp.Diff(tc.unread, s.Unread) + cmp.Diff(tc.asked, tc.server.asked); diff != "" {
				t.Error(diff)
			}
		})
	}
	none := grantServer{}
	if _, err := ReadFor(t.Context(), &none, ref, "far"); err != nil || len(none.asked) > 0 {
		t.Errorf("R-83: grants are read for a source in the claim's own namespace: %v, %v", none.asked, err)
	}
}
