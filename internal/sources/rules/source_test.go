package source

import (
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

const driver = "csi.example"

var (
	cloneRef   = Ref{Kind: KindClaim, NamespacedName: types.NamespacedName{Namespace: "crew", Name: "old"}}
	restoreRef = Ref{Group: names.SnapshotGroup, Kind: KindSnapshot, NamespacedName: types.NamespacedName{Namespace: "crew", Name: "shot"}}
)

// claim returns a claim of one gibibyte with a source.
func claim(from Ref) *corev1.PersistentVolumeClaim {
	c := sized("crew", "new", "1Gi")
	if from.Kind != "" {
		c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: from.Kind, Name: from.Name}
	}
	if from.Group != "" {
		c.Spec.DataSource.APIGroup = &from.Group
	}
	return c
}

func sized(namespace, name, size string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid of " + name)},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("fast"),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
			},
		},
	}
}

// cloned returns a source claim that can be cloned, with its volume.
func cloned() State {
	c := sized("crew", "old", "1Gi")
	c.Spec.VolumeName, c.Status.Phase = "pv", corev1.ClaimBound
	return State{Ref: cloneRef, Claim: c, Volume: &corev1.PersistentVolume{
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef:               &corev1.ObjectReference{Namespace: "crew", Name: "old", UID: c.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h"}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}}
}

// restored returns a snapshot that can be restored, with its content.
func restored() State {
	vs := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "crew", Name: "shot", UID: "uid of shot"},
		Status: &snapshotv1.VolumeSnapshotStatus{
			BoundVolumeSnapshotContentName: new("content"), ReadyToUse: new(true), RestoreSize: new(resource.MustParse("1Gi")),
		},
	}
	return State{Ref: restoreRef, Snapshot: vs, Content: &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: "content"},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			Driver: driver, VolumeSnapshotRef: corev1.ObjectReference{Namespace: "crew", Name: "shot", UID: vs.UID},
			SourceVolumeMode: new(corev1.PersistentVolumeFilesystem),
		},
		Status: &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: new("s")},
	}}
}

// checkContent fails the test unless the claim is refused for the reason. If the reason is empty,
// the request must have the handle of the source.
func checkContent(t *testing.T, c *corev1.PersistentVolumeClaim, s State, r Rules, want verdict.Reason) {
	t.Helper()
	content, finding := Content(c, s, r)
	switch {
	case want == "" && finding != nil:
		t.Errorf("refused: %s", finding.Text())
	case want == "" && content.GetVolume().GetVolumeId() != "h" && content.GetSnapshot().GetSnapshotId() != "s":
		t.Errorf("R-67, R-76: content %v", content)
	case want != "" && (finding == nil || finding.Reason != want || finding.Message == "" || content != nil):
		t.Errorf("got %v, %v; want %s", content, finding, want)
	}
}

func TestClone(t *testing.T) {
	block := new(corev1.PersistentVolumeBlock)
	for _, tc := range []struct {
		name string
		edit func(c *corev1.PersistentVolumeClaim, s *State)
		want verdict.Reason
	}{
		{"all is well", func(*corev1.PersistentVolumeClaim, *State) {}, ""},
		{"R-63 larger", func(c *corev1.PersistentVolumeClaim, _ *State) { setSize(c, "2Gi") }, ""},
		{"R-62 another class of the driver", func(c *corev1.PersistentVolumeClaim, _ *State) { c.Spec.StorageClassName = new("slow") }, ""},
		{"R-62 a class by annotation", func(c *corev1.PersistentVolumeClaim, s *State) {
			s.Claim.Spec.StorageClassName, s.Claim.Annotations = nil, map[string]string{names.AnnBetaStorageClass: "fast"}
		}, ""},
		{"R-66 no mode is a filesystem", func(c *corev1.PersistentVolumeClaim, _ *State) {
			c.Spec.VolumeMode = new(corev1.PersistentVolumeFilesystem)
		}, ""},
		{"R-60 no source", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Claim = nil }, verdict.SourceMissing},
		{"R-61 pending", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Claim.Status.Phase = corev1.ClaimPending }, verdict.SourceNotReady},
		{"R-61 lost", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Claim.Status.Phase = corev1.ClaimLost }, verdict.SourceInvalid},
		{"R-61 terminating", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Claim.DeletionTimestamp = new(metav1.Now()) }, verdict.SourceDeleting},
		{"R-62 source without class", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Claim.Spec.StorageClassName = nil }, verdict.SourceInvalid},
		{"R-62 claim without class", func(c *corev1.PersistentVolumeClaim, _ *State) { c.Spec.StorageClassName = nil }, verdict.SourceInvalid},
		{"R-63 smaller", func(c *corev1.PersistentVolumeClaim, _ *State) { setSize(c, "1Mi") }, verdict.SourceLarger},
		{"R-64 no volume", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Claim.Spec.VolumeName = "" }, verdict.SourceNotReady},
		{"R-65 volume gone", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Volume = nil }, verdict.SourceMissing},
		{"R-65 no CSI volume", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Volume.Spec.CSI = nil }, verdict.SourceInvalid},
		{"R-65 another driver", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Volume.Spec.CSI.Driver = "b" }, verdict.SourceOfOtherDriver},
		{"R-65 no claimRef", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Volume.Spec.ClaimRef = nil }, verdict.SourceInvalid},
		{"R-65 claimRef uid", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Volume.Spec.ClaimRef.UID = "x" }, verdict.SourceInvalid},
		{"R-65 claimRef namespace", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Volume.Spec.ClaimRef.Namespace = "x" }, verdict.SourceInvalid},
		{"R-65 claimRef name", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Volume.Spec.ClaimRef.Name = "x" }, verdict.SourceInvalid},
		{"R-65 phase", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Volume.Status.Phase = corev1.VolumeReleased }, verdict.SourceNotReady},
		{"R-66 block from filesystem", func(c *corev1.PersistentVolumeClaim, _ *State) { c.Spec.VolumeMode = block }, verdict.SourceModeDiffers},
		{"R-66 filesystem from block", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Claim.Spec.VolumeMode = block }, verdict.SourceModeDiffers},
		{"not read", func(_ *corev1.PersistentVolumeClaim, s *State) { *s = State{} }, verdict.SourceMissing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, s := claim(cloneRef), cloned()
			tc.edit(c, &s)
			checkContent(t, c, s, Rules{Driver: driver}, tc.want)
		})
	}
}

func TestRestore(t *testing.T) {
	block := func(s *State) { s.Content.Spec.SourceVolumeMode = new(corev1.PersistentVolumeBlock) }
	mode := func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = new(corev1.PersistentVolumeFilesystem) }
	annotated := func(value string) func(*corev1.PersistentVolumeClaim, *State) {
		return func(c *corev1.PersistentVolumeClaim, s *State) {
			mode(c)
			block(s)
			s.Content.Annotations = map[string]string{names.AnnAllowVolumeModeChange: value}
		}
	}
	deleting := func(s *State) { s.Snapshot.DeletionTimestamp = new(metav1.Now()) }
	for _, tc := range []struct {
		name string
		edit func(c *corev1.PersistentVolumeClaim, s *State)
		want verdict.Reason
	}{
		{"all is well", func(*corev1.PersistentVolumeClaim, *State) {}, ""},
		{"R-70 terminating with the finalizer", func(_ *corev1.PersistentVolumeClaim, s *State) {
			deleting(s)
			s.Snapshot.Finalizers = []string{names.FinalizerRestoreSource}
		}, ""},
		{"R-74 larger", func(c *corev1.PersistentVolumeClaim, _ *State) { setSize(c, "3Gi") }, ""},
		{"R-74 no restore size", func(c *corev1.PersistentVolumeClaim, s *State) { s.Snapshot.Status.RestoreSize = nil }, ""},
		{"R-75 the mode of the source is not known", func(c *corev1.PersistentVolumeClaim, s *State) {
			mode(c)
			s.Content.Spec.SourceVolumeMode = nil
		}, ""},
		{"R-75 the claim has no mode", func(_ *corev1.PersistentVolumeClaim, s *State) { block(s) }, ""},
		{"R-75 AN-10 allowed", annotated("true"), ""},
		{"R-75 AN-10 forbidden", annotated("false"), verdict.SourceModeDiffers},
		{"R-75 AN-10 unparsable", annotated("maybe"), verdict.SourceModeDiffers},
		{"R-75 AN-10 absent", func(c *corev1.PersistentVolumeClaim, s *State) { mode(c); block(s) }, verdict.SourceModeDiffers},
		{"R-70 no snapshot", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Snapshot = nil }, verdict.SourceMissing},
		{"R-70 terminating", func(_ *corev1.PersistentVolumeClaim, s *State) { deleting(s) }, verdict.SourceDeleting},
		{"R-70 the snapshotter's finalizer is another one", func(_ *corev1.PersistentVolumeClaim, s *State) {
			deleting(s)
			s.Snapshot.Finalizers = []string{names.FinalizerSnapshotSource}
		}, verdict.SourceDeleting},
		{"R-71 no status", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Snapshot.Status = nil }, verdict.SourceNotReady},
		{"R-71 not bound", func(_ *corev1.PersistentVolumeClaim, s *State) {
			s.Snapshot.Status.BoundVolumeSnapshotContentName = nil
		}, verdict.SourceNotReady},
		{"R-72 no content", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Content = nil }, verdict.SourceMissing},
		{"R-72 uid", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Content.Spec.VolumeSnapshotRef.UID = "" }, verdict.SourceInvalid},
		{"R-72 namespace", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Content.Spec.VolumeSnapshotRef.Namespace = "x" }, verdict.SourceInvalid},
		{"R-72 name", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Content.Spec.VolumeSnapshotRef.Name = "x" }, verdict.SourceInvalid},
		{"R-72 another driver", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Content.Spec.Driver = "b" }, verdict.SourceOfOtherDriver},
		{"R-73 not ready", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Snapshot.Status.ReadyToUse = new(false) }, verdict.SourceNotReady},
		{"R-73 no handle", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Content.Status.SnapshotHandle = nil }, verdict.SourceNotReady},
		{"R-73 no status", func(_ *corev1.PersistentVolumeClaim, s *State) { s.Content.Status = nil }, verdict.SourceNotReady},
		{"R-74 smaller", func(c *corev1.PersistentVolumeClaim, _ *State) { setSize(c, "512Mi") }, verdict.SourceLarger},
		{"R-74 no request", func(c *corev1.PersistentVolumeClaim, _ *State) { c.Spec.Resources.Requests = nil }, verdict.SourceLarger},
		{"H-38 the kind is not served", func(_ *corev1.PersistentVolumeClaim, s *State) {
			*s = State{Ref: s.Ref, Unread: Unread{Resource: "volumesnapshots"}}
		}, verdict.SourceMissing},
		{"RB-5 may not be read", func(_ *corev1.PersistentVolumeClaim, s *State) {
			*s = State{Ref: s.Ref, Unread: Unread{Resource: "volumesnapshots", Forbidden: true}}
		}, verdict.SourceForbidden},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, s := claim(restoreRef), restored()
			tc.edit(c, &s)
			checkContent(t, c, s, Rules{Driver: driver, KeepVolumeMode: true}, tc.want)
		})
	}
	c, s := claim(restoreRef), restored()
	mode(c)
	block(&s)
	checkContent(t, c, s, Rules{Driver: driver}, "") // F-27 off
}

func setSize(c *corev1.PersistentVolumeClaim, size string) {
	c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size)
}

func TestOf(t *testing.T) {
	apps := new("apps.example")
	snapshots := new(names.SnapshotGroup)
	for _, tc := range []struct {
		name    string
		local   *corev1.TypedLocalObjectReference
		ref     *corev1.TypedObjectReference
		want    string
		foreign bool
		off     verdict.Reason // of CheckKind with the gate off
		on      verdict.Reason
	}{
		{"none", nil, nil, " /", false, "", ""},
		{
			"R-80 dataSource wins", &corev1.TypedLocalObjectReference{Kind: KindClaim, Name: "a"},
			&corev1.TypedObjectReference{Kind: KindClaim, Name: "b", Namespace: new("far")}, "PersistentVolumeClaim crew/a", false, "", "",
		},
		{"R-81 dataSourceRef", nil, &corev1.TypedObjectReference{APIGroup: snapshots, Kind: KindSnapshot, Name: "b"}, "VolumeSnapshot crew/b", false, "", ""},
		{
			"R-82 a namespace", nil, &corev1.TypedObjectReference{Kind: KindClaim, Name: "b", Namespace: new("far")},
			"PersistentVolumeClaim far/b", false, verdict.SourceNamespaceOff, "",
		},
		{
			"R-82 the own namespace", nil, &corev1.TypedObjectReference{Kind: KindClaim, Name: "b", Namespace: new("crew")},
			"PersistentVolumeClaim crew/b", false, verdict.SourceNamespaceOff, "",
		},
		{
			"R-81 an empty namespace", nil, &corev1.TypedObjectReference{Kind: KindClaim, Name: "b", Namespace: new("")},
			"PersistentVolumeClaim crew/b", false, "", "",
		},
		{
			"R-85 another kind", nil, &corev1.TypedObjectReference{APIGroup: apps, Kind: "Backup", Name: "b"}, "Backup crew/b", true,
			verdict.SourceForeign, verdict.SourceForeign,
		},
		{
			"H-25 a claim of another group", &corev1.TypedLocalObjectReference{APIGroup: apps, Kind: KindClaim, Name: "a"}, nil,
			"PersistentVolumeClaim crew/a", true, verdict.SourceForeign, verdict.SourceForeign,
		},
		{
			"H-25 a snapshot of another group", &corev1.TypedLocalObjectReference{APIGroup: apps, Kind: KindSnapshot, Name: "a"}, nil,
			"VolumeSnapshot crew/a", true, verdict.SourceForeign, verdict.SourceForeign,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := claim(Ref{})
			c.Spec.DataSource, c.Spec.DataSourceRef = tc.local, tc.ref
			if got := Of(c); got.String() != tc.want || got.IsForeign() != tc.foreign {
				t.Errorf("got %s, foreign %t", got, got.IsForeign())
			}
			for _, gate := range []struct {
				on   bool
				want verdict.Reason
			}{{false, tc.off}, {true, tc.on}} {
				var got verdict.Reason
				if finding := CheckKind(c, Rules{Driver: driver, CrossNamespace: gate.on}); finding != nil {
					got = finding.Reason
				}
				if got != gate.want {
					t.Errorf("gate %t: %q, want %q", gate.on, got, gate.want)
				}
			}
		})
	}
}

//
func TestGrants(t *testing.T) {
	from := func(namespace string) []GrantFrom { return []GrantFrom{{Kind: KindClaim, Namespace: namespace}} }
	to := func(name string) []GrantTo {
		return []GrantTo{{Group: names.SnapshotGroup, Kind: KindSnapshot, Name: name}}
	}
	for _, tc := range []struct {
		name   string
		grants []Grant
		want   verdict.Reason
	}{
		{"none", nil, verdict.SourceNotGranted},
		{"all snapshots", []Grant{{from("crew"), to("")}}, ""},
		{"this snapshot", []Grant{{from("crew"), to("shot")}}, ""},
		{"the second grant", []Grant{{from("other"), to("")}, {from("crew"), to("shot")}}, ""},
		{"another snapshot", []Grant{{from("crew"), to("other")}}, verdict.SourceNotGranted},
		{"another namespace", []Grant{{from("other"), to("")}}, verdict.SourceNotGranted},
		{"from and to in two grants", []Grant{{from("crew"), nil}, {nil, to("")}}, verdict.SourceNotGranted},
		{"another group", []Grant{{from("crew"), []GrantTo{{Kind: KindSnapshot}}}}, verdict.SourceNotGranted},
		{"another kind", []Grant{{from("crew"), []GrantTo{{Kind: KindClaim}}}}, verdict.SourceNotGranted},
		{"from another group", []Grant{{[]GrantFrom{{Group: "x", Kind: KindClaim, Namespace: "crew"}}, to("")}}, verdict.SourceNotGranted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, s := claim(Ref{}), restored()
			s.Ref.Namespace, s.Snapshot.Namespace, s.Content.Spec.VolumeSnapshotRef.Namespace = "far", "far", "far"
			c.Spec.DataSourceRef = &corev1.TypedObjectReference{
				APIGroup: new(names.SnapshotGroup), Kind: KindSnapshot, Name: "shot", Namespace: new("far"),
			}
			s.Grants = tc.grants
			checkContent(t, c, s, Rules{Driver: driver, CrossNamespace: true}, tc.want)
		})
	}
}
