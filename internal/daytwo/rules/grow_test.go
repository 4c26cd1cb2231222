package daytwo

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func setOf(change func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "db", UID: "old", ResourceVersion: "7", Generation: 3,
			Labels: map[string]string{"a": "b"},
		},
		Spec: appsv1.StatefulSetSpec{VolumeClaimTemplates: []corev1.PersistentVolumeClaim{
			claimOf("data", "1Gi", func(c *corev1.PersistentVolumeClaim) { c.Namespace, c.UID = "", "" }),
		}},
		Status: appsv1.StatefulSetStatus{ObservedGeneration: 3},
	}
	if change != nil {
		change(s)
	}
	return s
}

func growInput() GrowInput {
	pv0, pv1 := volumeOf("pv-data-db-0", "data-db-0", nil), volumeOf("pv-data-db-1", "data-db-1", nil)
	return GrowInput{
		Set: setOf(nil), Size: resource.MustParse("2Gi"),
		Claims: []corev1.PersistentVolumeClaim{
			claimOf("data-db-1", "1Gi", nil), claimOf("data-db-0", "1Gi", nil), claimOf("data-other-0", "1Gi", nil),
			claimOf("data-db-x", "1Gi", nil),
		},
		Volumes: map[string]*corev1.PersistentVolume{"pv-data-db-0": &pv0, "pv-data-db-1": &pv1},
		Classes: map[string]*storagev1.StorageClass{"fast": {AllowVolumeExpansion: new(true)}},
		Drivers: map[string]bool{"d.example.com": true}, Leases: []string{"external-resizer-d-example-com"},
		Pods: []corev1.Pod{podOf("db-0", "n", "data-db-0")},
	}
}

func TestPlanGrowth(t *testing.T) {
	quota := func(name corev1.ResourceName, hard, used string) corev1.ResourceQuota {
		return corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Status: corev1.ResourceQuotaStatus{
			Hard: corev1.ResourceList{name: resource.MustParse(hard)},
			Used: corev1.ResourceList{name: resource.MustParse(used)},
		}}
	}
	for name, tc := range map[string]struct {
		change  func(*GrowInput)
		refused string // part of the refusal; empty for none
		note    string
	}{
		"allowed": {func(*GrowInput) {}, "", "pods keep running"},
		"smaller": {
			func(in *GrowInput) { in.Size = resource.MustParse("1Mi") }, "a claim cannot shrink", "",
		},
		"a class that forbids": {
			func(in *GrowInput) { in.Classes["fast"].AllowVolumeExpansion = nil }, "allowVolumeExpansion is not true",
			"",
		},
		"a class that is gone":  {func(in *GrowInput) { in.Classes = nil }, "StorageClass fast does not exist", ""},
		"a driver that is gone": {func(in *GrowInput) { in.Drivers = nil }, "it is not installed", ""},
		"no resizer":            {func(in *GrowInput) { in.Leases = []string{} }, "", "no Lease says that a resizer"},
		"another sidecar, or one process": {
			func(in *GrowInput) { in.Leases = []string{"d-example-com"} }, "",
			"whether a resizer of driver d.example.com runs is not known: the Lease d-example-com",
		},
		"sidecars without the provisioner": {
			func(in *GrowInput) { in.Leases = []string{"external-attacher-leader-d-example-com"} }, "",
			"is not known: the Lease external-attacher-leader-d-example-com",
		},
		"a snapshotter alone": {
			func(in *GrowInput) { in.Leases = []string{"external-snapshotter-leader-d-example-com"} }, "",
			"no Lease says that a resizer",
		},
		"a claim that waits": {
			func(in *GrowInput) { in.Claims[0].Status.Phase = corev1.ClaimPending }, "pvc/data-db-1 is Pending", "",
		},
		"a quota without room": {
			func(in *GrowInput) { in.Quotas = []corev1.ResourceQuota{quota("requests.storage", "5Gi", "4Gi")} },
			"allows 5Gi, 4Gi are used, and 2Gi more are needed", "",
		},
		"a quota with room": {
			func(in *GrowInput) { in.Quotas = []corev1.ResourceQuota{quota("requests.storage", "6Gi", "4Gi")} }, "", "",
		},
		"a quota of the class": {func(in *GrowInput) {
			in.Quotas = []corev1.ResourceQuota{quota("fast.storageclass.storage.k8s.io/requests.storage", "3Gi", "2Gi")}
		}, "2Gi more are needed", ""},
		"a quota of other class": {func(in *GrowInput) {
			in.Quotas = []corev1.ResourceQuota{quota("slow.storageclass.storage.k8s.io/requests.storage", "0", "0")}
		}, "", ""},
		"a quota of pods": {
			func(in *GrowInput) { in.Quotas = []corev1.ResourceQuota{quota("pods", "0", "0")} }, "", "",
		},
		"no templates": {
			func(in *GrowInput) { in.Set.Spec.VolumeClaimTemplates = nil }, "has no volumeClaimTemplates", "",
		},
		"another template": {
			func(in *GrowInput) { in.Template = "log" }, "has no volumeClaimTemplate log; there are: data", "",
		},
		"several templates": {func(in *GrowInput) {
			in.Set.Spec.VolumeClaimTemplates = append(in.Set.Spec.VolumeClaimTemplates, claimOf("log", "1Gi", nil))
		}, "choose one with --template: data, log", ""},
		"an operator's": {func(in *GrowInput) {
			in.Set.OwnerReferences = []metav1.OwnerReference{{Kind: "Postgres", Name: "p", Controller: new(true)}}
		}, "Postgres p controls the StatefulSet", ""},
		"an operator's, all the same": {func(in *GrowInput) {
			in.Set.OwnerReferences, in.EvenIfOwned = []metav1.OwnerReference{{
				Kind: "Postgres", Name: "p", Controller: new(true),
			}}, true
		}, "", ""},
		"Helm's": {func(in *GrowInput) {
			in.Set.Annotations = map[string]string{"meta.helm.sh/release-name": "r"}
		}, "", "Helm release r wrote the StatefulSet"},
	} {
		in := growInput()
		tc.change(&in)
		p := PlanGrowth(in)
		got := strings.Join(p.Refused, "\n")
		if tc.refused == "" && got != "" || !strings.Contains(got, tc.refused) {
			t.Errorf("%s: refused %q, want %q", name, got, tc.refused)
		}
		if notes := strings.Join(p.Notes, "\n"); !strings.Contains(notes, tc.note) {
			t.Errorf("%s: notes %q, want %q", name, notes, tc.note)
		}
	}
	p := PlanGrowth(growInput())
	if len(p.Claims) != 2 || p.Claims[0].Name != "data-db-0" || p.Claims[0].To != "2Gi" || p.Claims[0].Pod != "db-0" ||
		!p.Replace || p.IsDone() {
		t.Errorf("%+v", p)
	}
	if steps := strings.Join(p.Steps(), "\n"); !strings.Contains(steps, "Secret shop/purser-grow-db") ||
		strings.Count(steps, "\n") != 4 {
		t.Errorf("steps:\n%s", steps)
	}
	in := growInput()
	for driver, lease := range map[string]string{
		"d.example.com": "external-resizer-d-example-com", "d": "external-resizer-d",
		"D.example.com": "xexternal-resizer-d-example-com", // LK-1
	} {
		in.Leases, in.Drivers = []string{"d", "d-example-com", "xd-example-com", lease}, map[string]bool{driver: true}
		for _, pv := range in.Volumes {
			pv.Spec.CSI.Driver = driver
		}
		if notes := strings.Join(PlanGrowth(in).Notes, "\n"); strings.Contains(notes, "a resizer of") {
			t.Errorf("the resizer of %s has a Lease: %s", driver, notes)
		}
	}
	in = growInput()
	in.Size = resource.MustParse("1Gi")
	if p = PlanGrowth(in); !p.IsDone() {
		t.Errorf("nothing to do: %+v", p)
	}
}

// The new object has everything of the old one but the size, and what only the API server writes.
func TestReplacement(t *testing.T) {
	old := setOf(func(s *appsv1.StatefulSet) {
		s.Finalizers = []string{"example.com/keep", metav1.FinalizerOrphanDependents}
		s.Spec.Replicas, s.Spec.ServiceName = new(int32(3)), "db"
		s.OwnerReferences = []metav1.OwnerReference{{Kind: "Postgres", Name: "p", UID: "u"}}
	})
	set := Replacement(old, "data", resource.MustParse("2Gi"))
	if set.UID != "" || set.ResourceVersion != "" || set.Labels["a"] != "b" || *set.Spec.Replicas != 3 ||
		set.Spec.ServiceName != "db" ||
		len(set.OwnerReferences) != 1 || len(set.Finalizers) != 1 || set.Finalizers[0] != "example.com/keep" {
		t.Errorf("%+v", set)
	}
	have := set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]
	was := old.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]
	if have.String() != "2Gi" || was.String() != "1Gi" || HasTemplates(old, set) || !HasTemplates(set, set.DeepCopy()) {
		t.Errorf("%s, and %s before", have.String(), was.String())
	}
}

func TestGrowthOf(t *testing.T) {
	to := resource.MustParse("2Gi")
	large := func(pv *corev1.PersistentVolume) { pv.Spec.Capacity[corev1.ResourceStorage] = to }
	infeasible := func(c *corev1.PersistentVolumeClaim) {
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
			corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInfeasible,
		}
	}
	for name, tc := range map[string]struct {
		claim                      corev1.PersistentVolumeClaim
		volume                     corev1.PersistentVolume
		inUse                      bool
		volumeDone, done, isFailed bool
	}{
		"the driver has not expanded": {
			claimOf("a", "1Gi", nil), volumeOf("p", "a", nil), true, false, false, false,
		},
		"the node has not": {
			claimOf("a", "1Gi", nil), volumeOf("p", "a", large), true, true, false, false,
		},
		"no pod, so the node has time": {
			claimOf("a", "1Gi", nil), volumeOf("p", "a", large), false, true, true, false,
		},
		"done": {
			claimOf("a", "2Gi", nil), volumeOf("p", "a", large), true, true, true, false,
		},
		"the driver refuses it for good": {
			claimOf("a", "1Gi", infeasible), volumeOf("p", "a", nil), true, false, false, true,
		},
	} {
		g := GrowthOf(&tc.claim, &tc.volume, to, tc.inUse)
		if g.VolumeDone != tc.volumeDone || g.Done != tc.done || g.Failed != tc.isFailed || g.Text == "" {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]string{
		"sts/db": "db", "statefulset/db": "db", "statefulsets.apps/db": "db", "db": "", "pvc/db": "", "sts/": "",
		"sts/a/b": "",
	} {
		if got, err := ParseTarget(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}
