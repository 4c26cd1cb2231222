package rules

import (
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
)

const driver = "csi.example.com"

// pair returns a snapshot that is ready, and its content.
func pair() (*snapshotv1.VolumeSnapshot, *snapshotv1.VolumeSnapshotContent) {
	snapshot := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "monday", UID: "1"},
		Status: &snapshotv1.VolumeSnapshotStatus{
			ReadyToUse: new(true), BoundVolumeSnapshotContentName: new("content"),
		},
	}
	content := &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: "content"},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			Driver: driver, VolumeSnapshotRef: corev1.ObjectReference{Namespace: "shop", Name: "monday", UID: "1"},
		},
		Status: &snapshotv1.VolumeSnapshotContentStatus{ReadyToUse: new(true), SnapshotHandle: new("handle")},
	}
	return snapshot, content
}

func TestHandles(t *testing.T) {
	type edit func(
		s *snapshotv1.VolumeSnapshot, c *snapshotv1.VolumeSnapshotContent,
	) (*snapshotv1.VolumeSnapshot, *snapshotv1.VolumeSnapshotContent)
	with := func(change func(s *snapshotv1.VolumeSnapshot, c *snapshotv1.VolumeSnapshotContent)) edit {
		return func(
			s *snapshotv1.VolumeSnapshot, c *snapshotv1.VolumeSnapshotContent,
		) (*snapshotv1.VolumeSnapshot, *snapshotv1.VolumeSnapshotContent) {
			change(s, c)
			return s, c
		}
	}
	type (
		vs  = *snapshotv1.VolumeSnapshot
		vsc = *snapshotv1.VolumeSnapshotContent
	)
	for _, tc := range []struct {
		row  string
		edit edit
		code codes.Code
		text string
	}{
		{"CB-14 ready", with(func(vs, vsc) {}), codes.OK, ""},
		{"CB-27 no snapshot", func(_ vs, c vsc) (vs, vsc) { return nil, c }, codes.NotFound, "VolumeSnapshot not found 'shop/monday'"},
		{"CB-H2 no status", with(func(s vs, _ vsc) { s.Status = nil }), codes.Unavailable, "the VolumeSnapshot is not yet ready"},
		{"CB-15 readiness not known", with(func(s vs, _ vsc) { s.Status.ReadyToUse = nil }), codes.Unavailable, "not yet ready, name: monday"},
		{"CB-15 not ready", with(func(s vs, _ vsc) { s.Status.ReadyToUse = new(false) }), codes.Unavailable, "not yet ready"},
		{
			"CB-15 not bound", with(func(s vs, _ vsc) { s.Status.BoundVolumeSnapshotContentName = nil }),
			codes.Unavailable, "boundVolumeSnapshotContentName is not set",
		},
		{"CB-27 no content", func(s vs, _ vsc) (vs, vsc) { return s, nil }, codes.NotFound, "VolumeSnapshotContent not found 'content'"},
		{"CB-H2 content without status", with(func(_ vs, c vsc) { c.Status = nil }), codes.Unavailable, "the VolumeSnapshotContent is not yet ready"},
		{"CB-15 content not ready", with(func(_ vs, c vsc) { c.Status.ReadyToUse = nil }), codes.Unavailable, "not yet ready, name: content"},
		{"CB-15 no handle", with(func(_ vs, c vsc) { c.Status.SnapshotHandle = nil }), codes.Unavailable, "snapshotHandle is not set"},
		{
			"CB-15 another driver", with(func(_ vs, c vsc) { c.Spec.Driver = "other" }), codes.InvalidArgument,
			"VolumeSnapshot 'monday' does not belong to the CSI driver 'csi.example.com'",
		},
		{"CB-14 content of another namespace", with(func(_ vs, c vsc) { c.Spec.VolumeSnapshotRef.Namespace = "bank" }), codes.Unavailable, "is not bound"},
		{"CB-14 content of an earlier snapshot", with(func(_ vs, c vsc) { c.Spec.VolumeSnapshotRef.UID = "0" }), codes.Unavailable, "is not bound"},
		{"CB-14 static content without uid", with(func(_ vs, c vsc) { c.Spec.VolumeSnapshotRef.UID = "" }), codes.OK, ""},
	} {
		snapshot, content := tc.edit(pair())
		_, refusal := ContentOf(types.NamespacedName{Namespace: "shop", Name: "monday"}, snapshot)
		handle := ""
		if refusal == nil {
			handle, refusal = HandleOf(snapshot, content, driver)
		}
		check(t, tc.row, refusal, tc.code, tc.text)
		if tc.code == codes.OK && handle != "handle" {
			t.Errorf("%s: the handle is %q", tc.row, handle)
		}
	}
}

// CB-H4: whose the handle of the base may be.
func TestBases(t *testing.T) {
	in := func(namespace, driver, handle string) *snapshotv1.VolumeSnapshotContent {
		_, c := pair()
		c.Spec.Driver, c.Spec.VolumeSnapshotRef.Namespace, c.Status.SnapshotHandle = driver, namespace, &handle
		return c
	}
	without := in("bank", driver, "base")
	without.Status = nil
	static := in("bank", driver, "base")
	static.Status, static.Spec.Source.SnapshotHandle = nil, new("base")
	of := func(volume string) *snapshotv1.VolumeSnapshotContent {
		c := in("shop", driver, "base")
		c.Spec.Source.VolumeHandle = &volume
		return c
	}
	for _, tc := range []struct {
		row      string
		contents []*snapshotv1.VolumeSnapshotContent
		code     codes.Code
	}{
		{"CB-12 no content has it", nil, codes.OK},
		{"CB-H4 of the namespace", []*snapshotv1.VolumeSnapshotContent{in("shop", driver, "base")}, codes.OK},
		{"CB-H4 of another namespace", []*snapshotv1.VolumeSnapshotContent{in("bank", driver, "base")}, codes.PermissionDenied},
		{"CB-H4 of both", []*snapshotv1.VolumeSnapshotContent{in("bank", driver, "base"), in("shop", driver, "base")}, codes.OK},
		{"CB-H4 of another driver", []*snapshotv1.VolumeSnapshotContent{in("bank", "other", "base")}, codes.OK},
		{"CB-H4 another handle", []*snapshotv1.VolumeSnapshotContent{in("bank", driver, "other")}, codes.OK},
		{"CB-H2 without status", []*snapshotv1.VolumeSnapshotContent{without}, codes.OK},
		{"CB-H4 static of another namespace, without status", []*snapshotv1.VolumeSnapshotContent{static}, codes.PermissionDenied},
		{"CB-H4 of the volume", []*snapshotv1.VolumeSnapshotContent{of("vol")}, codes.OK},
		{"CB-H4 of another volume", []*snapshotv1.VolumeSnapshotContent{of("other")}, codes.InvalidArgument},
	} {
		base := BaseCheck{Handle: "base", Driver: driver, Namespace: "shop", Volume: "vol"}
		own := false
		for _, c := range tc.contents {
			own = own || c.Spec.Driver == driver && c.Spec.VolumeSnapshotRef.Namespace == "shop"
			if isFound := base.Add(c); isFound != own {
				t.Errorf("%s: found is %t", tc.row, isFound)
			}
		}
		check(t, tc.row, base.Refusal(), tc.code, "")
	}
	base := BaseCheck{Handle: "base", Driver: driver, Namespace: "shop"}
	base.Add(of("other"))
	check(t, "CB-H4 the volume of the target is not known", base.Refusal(), codes.OK, "")
}

// CB-14: the class of the content counts, and it must be of the driver.
func TestClassOfASnapshot(t *testing.T) {
	snapshot, content := pair()
	if got := ClassName(snapshot, content); got != nil {
		t.Errorf("CB-14 none: %s", *got)
	}
	snapshot.Spec.VolumeSnapshotClassName = new("of-the-user")
	if got := ClassName(snapshot, content); got == nil || *got != "of-the-user" {
		t.Errorf("CB-14 of the snapshot: %v", got)
	}
	content.Spec.VolumeSnapshotClassName = new("of-the-content")
	if got := ClassName(snapshot, content); got == nil || *got != "of-the-content" {
		t.Errorf("CB-14 of the content: %v", got)
	}
	own, foreign := class("a", driver, false), class("b", "other", false)
	check(t, "CB-14 the driver's class", CheckClass(&own, driver), codes.OK, "")
	check(t, "CB-14 another driver's class", CheckClass(&foreign, driver), codes.InvalidArgument, "'b' does not belong")
}

func class(name, driver string, isDefault bool, parameters ...string) snapshotv1.VolumeSnapshotClass {
	c := snapshotv1.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Driver: driver, Parameters: map[string]string{},
	}
	if isDefault {
		c.Annotations = map[string]string{names.AnnDefaultSnapshotClass: "true"}
	}
	for i := 0; i < len(parameters); i += 2 {
		c.Parameters[parameters[i]] = parameters[i+1]
	}
	return c
}

// CB-14, CB-H1: the class of a snapshot that names none.
func TestDefaultClasses(t *testing.T) {
	for _, tc := range []struct {
		row     string
		classes []snapshotv1.VolumeSnapshotClass
		want    string
		code    codes.Code
	}{
		{"CB-H1 no class", nil, "", codes.OK},
		{"CB-H1 no default", []snapshotv1.VolumeSnapshotClass{class("a", driver, false)}, "", codes.OK},
		{"CB-14 the default of the driver", []snapshotv1.VolumeSnapshotClass{class("a", "other", true), class("b", driver, true)}, "b", codes.OK},
		{"CB-15 two defaults", []snapshotv1.VolumeSnapshotClass{class("a", driver, true), class("b", driver, true)}, "", codes.Unavailable},
	} {
		got, refusal := DefaultClass(tc.classes, driver)
		check(t, tc.row, refusal, tc.code, "")
		name := ""
		if got != nil {
			name = got.Name
		}
		if name != tc.want {
			t.Errorf("%s: %q, want %q", tc.row, name, tc.want)
		}
	}
}

// CB-14: the secret of a class.
func TestSecrets(t *testing.T) {
	key := types.NamespacedName{Namespace: "shop", Name: "monday"}
	const name, namespace = names.ParameterSnapshotterSecretName, names.ParameterSnapshotterSecretNamespace
	for _, tc := range []struct {
		row        string
		parameters []string
		want       types.NamespacedName
		code       codes.Code
	}{
		{"CB-14 none", nil, types.NamespacedName{}, codes.OK},
		{"CB-14 fixed", []string{name, "key", namespace, "vault"}, types.NamespacedName{Namespace: "vault", Name: "key"}, codes.OK},
		{"CB-14 template", []string{name, "${volumesnapshot.name}", namespace, "${volumesnapshot.namespace}"}, key, codes.OK},
		{"CB-15 half a pair", []string{name, "key"}, types.NamespacedName{}, codes.Unavailable},
	} {
		c := class("a", driver, false, tc.parameters...)
		got, refusal := SecretOf(&c, key, "content")
		check(t, tc.row, refusal, tc.code, "")
		if got != tc.want {
			t.Errorf("%s: %s, want %s", tc.row, got, tc.want)
		}
	}
	if got, refusal := SecretOf(nil, key, "content"); got.Name != "" || refusal != nil {
		t.Errorf("CB-H1: %s, %v", got, refusal)
	}
}
