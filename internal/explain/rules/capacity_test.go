package explain

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

// newCapacityScene is two zones, and a pod without a node whose claim of 5Gi waits for it.
func newCapacityScene() (scene, *storagev1.StorageClass) {
	s, yes, delayed := newScene(), true, storagev1.VolumeBindingWaitForFirstConsumer
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "later"}, Provisioner: disk, VolumeBindingMode: &delayed}
	s.claim.Spec.VolumeName, s.claim.Status.Phase = "", corev1.ClaimPending
	s.claim.Spec.StorageClassName = &class.Name
	s.claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")}
	s.Classes = []*storagev1.StorageClass{class}
	s.CSIDrivers = []*storagev1.CSIDriver{{ObjectMeta: metav1.ObjectMeta{Name: disk}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &yes}}}
	return s, class
}

// room is a CSIStorageCapacity as CLASS ZONE CAPACITY [MAXIMUM], - for absent.
func room(t *testing.T, text string) *storagev1.CSIStorageCapacity {
	t.Helper()
	quantity := func(text string) *resource.Quantity {
		if text == "-" {
			return nil
		}
		q := resource.MustParse(text)
		return &q
	}
	fields := append(strings.Fields(text), "-")
	capacity := &storagev1.CSIStorageCapacity{
		StorageClassName: fields[0], Capacity: quantity(fields[2]), MaximumVolumeSize: quantity(fields[3]),
	}
	if zone := fields[1]; zone != "-" {
		capacity.NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{"zone": zone}}
	}
	return capacity
}

// The capacity that a driver publishes, as the scheduler compares it (KEP-1472).
func TestCapacity(t *testing.T) {
	type edit = func(scene, *storagev1.StorageClass)
	inZone := func(zone string) edit {
		return func(s scene, _ *storagev1.StorageClass) { s.pod.Spec.NodeSelector = map[string]string{"zone": zone} }
	}
	inZoneA, inZoneC := inZone("a"), inZone("c")
	cordoned := func(s scene, _ *storagev1.StorageClass) { s.Nodes[1].Spec.Unschedulable = true }
	for name, tc := range map[string]struct {
		edit      func(scene, *storagev1.StorageClass)
		published []string
		want      string // part of what the pod waits for; empty for no finding
	}{
		"room in one zone":                  {nil, []string{"later a 1Gi", "later b 9Gi"}, ""},
		"no room":                           {nil, []string{"later a 1Gi"}, "has it nowhere"},
		"exactly as much":                   {nil, []string{"later a 5Gi"}, ""},
		"room, but not for one volume":      {nil, []string{"later a 9Gi 1Gi"}, "has it nowhere"},
		"room for one volume":               {nil, []string{"later a - 5Gi"}, ""},
		"room of another class":             {nil, []string{"now a 9Gi"}, "no CSIStorageCapacity object"},
		"a topology without a capacity":     {nil, []string{"later a -"}, "has it nowhere"},
		"room on no node":                   {nil, []string{"later - 9Gi"}, "elsewhere only"},
		"nothing is published":              {nil, nil, "no CSIStorageCapacity object"},
		"the only zone of the pod is full":  {inZoneA, []string{"later a 1Gi", "later b 9Gi"}, "where the pod may run"},
		"the zone of the pod has room":      {inZoneA, []string{"later a 9Gi", "later b 1Gi"}, ""},
		"nothing published for its zone":    {inZoneA, []string{"later b 9Gi"}, "where the pod may run"},
		"the pod may run nowhere":           {inZoneC, []string{"later a 1Gi"}, ""},
		"the zone with room is cordoned":    {cordoned, []string{"later a 1Gi", "later b 9Gi"}, "where the pod may run"},
		"its taint keeps the pod away":      {taint("NoSchedule"), []string{"later a 1Gi", "later b 9Gi"}, "where the pod may run"},
		"a taint that is only a preference": {taint("PreferNoSchedule"), []string{"later a 1Gi", "later b 9Gi"}, ""},
		"a taint that the pod tolerates": {func(s scene, c *storagev1.StorageClass) {
			taint("NoSchedule")(s, c)
			s.pod.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
		}, []string{"later a 1Gi", "later b 9Gi"}, ""},
		"the class allows the full zone only": {func(_ scene, c *storagev1.StorageClass) {
			c.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
				{Key: "zone", Values: []string{"a"}},
			}}}
		}, []string{"later a 1Gi", "later b 9Gi"}, "where the pod may run"},
		"another volume of the pod is in the full zone": {func(s scene, _ *storagev1.StorageClass) {
			s.Claims = append(s.Claims, boundClaimOf("d", "pv"))
			*s.pod = *podWith("p", "c", "d")
		}, []string{"later a 1Gi", "later b 9Gi"}, "where the pod may run"},
		"binds at once":            {func(_ scene, c *storagev1.StorageClass) { c.VolumeBindingMode = nil }, []string{"later a 1Gi"}, ""},
		"the driver promises none": {func(s scene, _ *storagev1.StorageClass) { s.CSIDrivers[0].Spec.StorageCapacity = nil }, []string{"later a 1Gi"}, ""},
		"capacities were not read": {func(s scene, _ *storagev1.StorageClass) { s.Unread = map[Kind]string{Capacity: "forbidden"} }, nil, ""},
		"nodes were not read": {
			func(s scene, _ *storagev1.StorageClass) { s.Unread = map[Kind]string{Node: "forbidden"} },
			[]string{"later a 1Gi"},
			"has it nowhere",
		},
	} {
		s, class := newCapacityScene()
		for _, text := range tc.published {
			s.Capacities = append(s.Capacities, room(t, text))
		}
		if tc.edit != nil {
			tc.edit(s, class)
		}
		found, _ := s.Prepare().refusedEverywhere(s.pod, Finding{})
		short := len(found) > 0 && found[0].Reason == verdict.CapacityMissing
		switch {
		case tc.want == "" && short:
			t.Errorf("%s: %+v", name, found)
		case tc.want != "" && (!short || !strings.Contains(found[0].WaitsFor, tc.want)):
			t.Errorf("%s: %+v, want %q", name, found, tc.want)
		}
	}
}

func taint(effect corev1.TaintEffect) func(scene, *storagev1.StorageClass) {
	return func(s scene, _ *storagev1.StorageClass) {
		s.Nodes[1].Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "db", Effect: effect}}
	}
}

// The finding shows the capacity of the pod's zone, and that of the zone with room.
func TestCapacityEvidence(t *testing.T) {
	s, _ := newCapacityScene()
	s.pod.Spec.NodeSelector = map[string]string{"zone": "a"}
	s.Capacities = []*storagev1.CSIStorageCapacity{room(t, "later a 1Gi"), room(t, "later b 9Gi")}
	findings, _ := s.Prepare().refusedEverywhere(s.pod, Finding{})
	for _, want := range []string{"zone=a 1Gi", "zone=b 9Gi", "spec.nodeSelector, spec.affinity zone=a"} {
		if !slices.ContainsFunc(findings[0].Evidence, func(e Evidence) bool { return strings.HasSuffix(e.Field+" "+e.Value, want) }) {
			t.Errorf("%q is not in the evidence: %+v", want, findings[0].Evidence)
		}
	}
}
