package inventory

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// lists answers every LIST with no objects, and notes its kind. Group snapshots are served in one
// older version only, and Jobs may not be listed.
type lists struct {
	client.Reader
	kinds  []string
	groups string
}

func (l *lists) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	of, err := apiutil.GVKForObject(into, Scheme())
	if err != nil {
		return err
	}
	l.kinds = append(l.kinds, strings.TrimSuffix(of.Kind, "List"))
	switch group, is := into.(*unstructured.UnstructuredList); {
	case of.Group == groups.Group && of.Version != l.groups:
		return &meta.NoKindMatchError{GroupKind: of.GroupKind(), SearchedVersions: []string{of.Version}}
	case of.Kind == "JobList":
		return apierrors.NewForbidden(schema.GroupResource{Group: of.Group, Resource: "jobs"}, "", nil)
	case is && of.Kind == "VolumeGroupSnapshotContentList":
		list := map[string]string{"v1beta1": "volumeSnapshotHandlePairList", "v1beta2": "volumeSnapshotInfoList"}[l.groups]
		group.Items = []unstructured.Unstructured{{Object: map[string]any{
			"apiVersion": groups.Group + "/" + l.groups, "kind": "VolumeGroupSnapshotContent",
			"metadata": map[string]any{"name": "content"},
			"status": map[string]any{list: []any{
				map[string]any{"volumeHandle": "volume", "snapshotHandle": "snapshot"},
			}},
		}}}
	}
	return nil
}

// For a named object only the kinds are listed that its explanation needs, and the others count as unread.
func TestOnlyNeededKindsAreListed(t *testing.T) {
	for name, tc := range map[string]struct {
		asked    []explain.Kind
		has, not []string
	}{
		"everything": {nil, []string{"Job", "LimitRange", "VolumeGroupSnapshot", "PersistentVolumeClaim"}, nil},
		"a claim":    {[]explain.Kind{explain.Claim}, []string{"VolumeGroupSnapshot", "Event"}, []string{"Job", "LimitRange"}},
		"a node":     {[]explain.Kind{explain.Node}, []string{"CSINode"}, []string{"Job", "LimitRange", "VolumeGroupSnapshot"}},
		"two":        {[]explain.Kind{explain.Node, explain.Job}, []string{"Job", "LimitRange"}, nil},
	} {
		l := &lists{}
		cluster, err := Read(t.Context(), l, "shop", time.Now(), tc.asked...)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range tc.has {
			if !slices.Contains(l.kinds, kind) {
				t.Errorf("%s: %s is not listed", name, kind)
			}
		}
		for _, kind := range tc.not {
			if _, unread := cluster.Unread[explain.Kind(kind)]; slices.Contains(l.kinds, kind) || !unread {
				t.Errorf("%s: %s is listed, or not unread", name, kind)
			}
		}
	}
}

// A kind that may not be listed is unread. Group snapshots are read in an older version, with the fields of v1.
func TestForbiddenAndOlderKinds(t *testing.T) {
	for _, version := range []string{"v1beta1", "v1beta2"} {
		cluster, err := Read(t.Context(), &lists{groups: version}, "shop", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(cluster.Unread[explain.Job], "jobs.batch") {
			t.Errorf("unread: %v", cluster.Unread)
		}
		if len(cluster.GroupContents) != 1 || cluster.OlderGroups != version {
			t.Fatalf("%s: contents %v, version %q", version, cluster.GroupContents, cluster.OlderGroups)
		}
		infos := cluster.GroupContents[0].Status.VolumeSnapshotInfoList
		if len(infos) != 1 || infos[0].VolumeHandle != "volume" || infos[0].SnapshotHandle != "snapshot" {
			t.Errorf("%s: snapshots %v", version, infos)
		}
		if cause, unread := cluster.Unread[explain.GroupContent]; unread {
			t.Error(cause)
		}
	}
}

// Names that a controller makes of other names are made of their words in the same way, also those of objects
// that do not exist and that only a message has.
func TestHideDerivedNames(t *testing.T) {
	items := []map[string]any{
		{"kind": "Pod", "metadata": map[string]any{"name": "payroll-0"}, "spec": map[string]any{"volumes": []any{
			map[string]any{"name": "cache", "ephemeral": map[string]any{}},
		}}},
		{"kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": "books-payroll-0"}},
		{"kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": "payroll-0-cache"}},
		{"kind": "StatefulSet", "metadata": map[string]any{"name": "payroll"}, "spec": map[string]any{
			"replicas":             float64(2),
			"volumeClaimTemplates": []any{map[string]any{"metadata": map[string]any{"name": "books"}}},
		}},
		{
			"kind": "Event", "metadata": map[string]any{"name": "e"},
			"message": `create Claim books-payroll-1 for Pod payroll-1 in StatefulSet payroll failed error: failed calling ` +
				`webhook "w": Post "https://payroll-hook.secret.svc:443/x": persistentvolumeclaims "vault" is forbidden: no`,
		},
	}
	text, err := json.Marshal(HideNames(items))
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	for _, name := range []string{"payroll", "books", "vault", "cache"} {
		if strings.Contains(got, name) {
			t.Errorf("%q is left in %s", name, got)
		}
	}
	set, template := "statefulset-1", items[3]["spec"].(map[string]any)["volumeClaimTemplates"].([]any)[0].(map[string]any)
	claim := template["metadata"].(map[string]any)["name"].(string)
	for _, want := range []string{
		`"name":"` + set + `-0"`, `"name":"` + claim + "-" + set + `-0"`, `"name":"` + set + `-0-podvolume-1"`,
		"create Claim " + claim + "-" + set + "-1 for Pod " + set + "-1 in StatefulSet " + set, set + ".secret.svc",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
}
