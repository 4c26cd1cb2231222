package daytwo

import (
	"strings"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
)

// Steps that a class or a cluster does not allow are skipped, with the reason.
func TestPlanCheck(t *testing.T) {
	classes := []snapshotv1.VolumeSnapshotClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Driver: "other.example.com"},
		{ObjectMeta: metav1.ObjectMeta{Name: "first"}, Driver: "d.example.com"},
		{
			ObjectMeta: metav1.ObjectMeta{
				Name: "default", Annotations: map[string]string{names.AnnDefaultSnapshotClass: "true"},
			},
			Driver: "d.example.com",
		},
	}
	class := func(change func(*storagev1.StorageClass)) *storagev1.StorageClass {
		c := &storagev1.StorageClass{Provisioner: "d.example.com", AllowVolumeExpansion: new(true)}
		if change != nil {
			change(c)
		}
		return c
	}
	for name, tc := range map[string]struct {
		in   CheckInput
		skip map[string]string // steps and a part of the reason
		from string            // snapshot class
	}{
		"all": {CheckInput{Class: class(nil), SnapshotClasses: classes}, nil, "default"},
		"a class of snapshots": {
			CheckInput{Class: class(nil), SnapshotClasses: classes, SnapshotClass: "first"}, nil, "first",
		},
		"that does not exist": {
			CheckInput{Class: class(nil), SnapshotClasses: classes, SnapshotClass: "other"},
			map[string]string{StepSnapshot: "VolumeSnapshotClass other of driver", StepRestore: "there is no snapshot"},
			"",
		},
		"no snapshots": {
			CheckInput{Class: class(nil), SnapshotsUnread: "not served"},
			map[string]string{StepSnapshot: "not served", StepRestore: "not served"},
			"",
		},
		"no expansion": {
			CheckInput{
				Class:           class(func(c *storagev1.StorageClass) { c.AllowVolumeExpansion = nil }),
				SnapshotClasses: classes,
			},
			map[string]string{StepGrow: "allowVolumeExpansion"},
			"default",
		},
		"by flag": {
			CheckInput{Class: class(nil), SnapshotClasses: classes, Skip: []string{"mount", "clone"}},
			map[string]string{StepMount: "--skip", StepClone: "--skip"},
			"default",
		},
		"a pod is needed": {
			CheckInput{Class: class(func(c *storagev1.StorageClass) {
				c.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
			}), SnapshotClasses: classes, Skip: []string{"mount"}},
			nil, "default",
		},
	} {
		p := PlanCheck(tc.in)
		if len(p.Skip) != len(tc.skip) || p.SnapshotClass != tc.from {
			t.Errorf("%s: %v, class %q", name, p.Skip, p.SnapshotClass)
		}
		for step, why := range tc.skip {
			if !strings.Contains(p.Skip[step], why) {
				t.Errorf("%s: %s is skipped for %q, want %q", name, step, p.Skip[step], why)
			}
		}
	}
}

func TestPrintCheck(t *testing.T) {
	r := CheckReport{Time: now, Class: "fast", Steps: []CheckStep{
		{StepCreate, Passed, 0.25, ""},
		{StepWrite, Skipped, 0, "no kubelet"},
		{StepDelete, Passed, 1.5, "3 volumes are gone"},
	}}
	page := &Page{}
	r.Print(page)
	for _, text := range []string{
		"passed     250ms  create a claim", "skipped        -  write and read back     no kubelet",
		"as far as it went: 1 step skipped. Nothing is left.",
	} {
		if !strings.Contains(page.String(), text) {
			t.Errorf("no %q in\n%s", text, page)
		}
	}
	r.Left = []string{"pv/x"}
	if page = (&Page{}); r.ExitCode() != ExitFound {
		t.Error("something is left")
	}
	if r.Print(page); !strings.Contains(page.String(), "Left behind: pv/x") {
		t.Error(page)
	}
}
