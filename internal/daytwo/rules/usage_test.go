package daytwo

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func claimOf(name, size string, change func(*corev1.PersistentVolumeClaim)) corev1.PersistentVolumeClaim {
	c := corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: "pv-" + name, StorageClassName: new("fast"),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse(size),
			}},
		},
		Status: corev1.PersistentVolumeClaimStatus{
			Phase: corev1.ClaimBound, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
		},
	}
	if change != nil {
		change(&c)
	}
	return c
}

func volumeOf(name, claim string, change func(*corev1.PersistentVolume)) corev1.PersistentVolume {
	pv := corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "d.example.com", VolumeHandle: "h-" + name},
			},
			ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: claim, UID: types.UID("uid-" + claim)},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	if change != nil {
		change(&pv)
	}
	return pv
}

func podOf(name, node, claim string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{NodeName: node, Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func statistic(at time.Duration, capacity, used, available, inodes, inodesUsed uint64) Statistic {
	return Statistic{
		Time: now.Add(at), Capacity: &capacity, Used: &used, Available: &available, Inodes: &inodes,
		InodesUsed: &inodesUsed,
	}
}

// The fullest claim is first, by bytes or inodes; what is unknown is last, and has a reason.
func TestRankUsage(t *testing.T) {
	const mi = 1 << 20
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "shop", Name: name} }
	in := UsageInput{
		Now: now,
		Claims: []corev1.PersistentVolumeClaim{
			claimOf("empty", "100Mi", nil), claimOf("full", "100Mi", nil), claimOf("files", "100Mi", nil),
			claimOf("idle", "1Gi", nil), claimOf("silent", "1Gi", nil), claimOf("virtual", "100Mi", nil),
			claimOf(
				"raw", "1Gi",
				func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) },
			),
			claimOf("pending", "1Gi", func(c *corev1.PersistentVolumeClaim) {
				c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
			}),
		},
		Pods: []corev1.Pod{
			podOf("a", "n1", "empty"), podOf("b", "n1", "full"), podOf("b2", "n2", "full"), podOf("c", "n1", "files"),
			podOf("d", "n3", "silent"), podOf("e", "n1", "raw"), podOf("f", "n4", "virtual"),
		},
		Nodes: map[string]NodeAnswer{
			"n1": {Claims: map[types.NamespacedName]Statistic{
				key("empty"): statistic(0, 100*mi, 1*mi, 99*mi, 1000, 10),
				key("files"): statistic(0, 100*mi, 1*mi, 99*mi, 1000, 850),
				key("full"):  statistic(-time.Minute, 100*mi, 50*mi, 50*mi, 1000, 10),
				key("raw"):   statistic(0, 100*mi, 0, 0, 0, 0),
			}},
			"n2": {Claims: map[types.NamespacedName]Statistic{key("full"): statistic(
				0, 100*mi, 90*mi, 5*mi, 1000, 10,
			)}},
			"n3": {Err: "no answer within 10s"},
		},
		Agents: map[types.NamespacedName]Statistic{key("virtual"): statistic(0, 100*mi, 70*mi, 30*mi, 1000, 10)},
	}
	report := RankUsage(in, UsageOptions{Warn: 80, Critical: 90, Sort: "percent"})
	want := []struct {
		claim string
		level Level
		why   string
	}{
		{"full", Critical, ""}, // the newest statistic; what root alone may use counts as used: 90 of 95
		{"files", Warning, ""}, // by inodes
		{"virtual", Good, ""},  // by the agent of its node
		{"empty", Good, ""},
		{"idle", Unknown, "no pod uses it"},
		{"pending", Unknown, "the claim is Pending"},
		{"raw", Unknown, "a raw device: only its pod knows"},
		{"silent", Unknown, "node n3 did not answer"},
	}
	if len(report.Claims) != len(want) {
		t.Fatalf("%d claims", len(report.Claims))
	}
	for i, w := range want {
		if got := report.Claims[i]; got.Claim != w.claim || got.Level != w.level || got.Why != w.why {
			t.Errorf("row %d: %s %s %q, want %v", i, got.Claim, got.Level, got.Why, w)
		}
	}
	if report.ExitCode() != ExitFound {
		t.Error("exit code of a claim that is critically full")
	}
	if report.Claims = report.Claims[1:]; report.ExitCode() != ExitUnknown {
		t.Error("exit code without an answer of a node")
	}
	page := &Page{}
	report.Print(page)
	for _, text := range []string{
		"No answer from the kubelet of 1 node (n3): no answer within 10s", "unknown: no pod uses it", "IUSE%",
	} {
		if !strings.Contains(page.String(), text) {
			t.Errorf("no %q in\n%s", text, page)
		}
	}
	if strings.Contains(page.String(), "\x1b") {
		t.Error("colours without a terminal")
	}
	coloured := &Page{Colours: true}
	report.Print(coloured)
	if !strings.Contains(coloured.String(), "\x1b[33m") {
		t.Errorf("no colour of a warning in %q", coloured)
	}
}

// A driver's number stands for a volume that is not mounted, and the order is that of the flag.
func TestUsageOfDriverAndOrder(t *testing.T) {
	in := UsageInput{
		Now:    now,
		Claims: []corev1.PersistentVolumeClaim{claimOf("b", "2Gi", nil), claimOf("a", "1Gi", nil)},
		Volumes: []corev1.PersistentVolume{
			volumeOf("pv-b", "b", nil), volumeOf("pv-a", "a", nil),
		},
		Driver: map[string]map[string]Allocation{"d.example.com": {
			"h-pv-b": {Allocated: 1 << 30}, "h-pv-a": {Allocated: -1},
		}},
	}
	for order, want := range map[string]string{
		"percent": "b a", "name": "a b", "capacity": "b a", "used": "b a", "inodes": "a b",
	} {
		r := RankUsage(in, UsageOptions{Warn: 80, Critical: 90, Sort: order})
		if got := r.Claims[0].Claim + " " + r.Claims[1].Claim; got != want {
			t.Errorf("%s: %s, want %s", order, got, want)
		}
	}
	b := RankUsage(in, UsageOptions{Warn: 80, Critical: 90}).Claims[0]
	if b.Source != "driver" || *b.UsedBytes != 1<<30 || *b.Percent != 50 {
		t.Errorf("%+v", b)
	}
}

// Text of other parties cannot act on the terminal, and sizes are short.
func TestPrinting(t *testing.T) {
	p := &Page{}
	p.Line(Plain, "a %s", "b\x1b[2J\nc")
	if got := p.String(); got != "a b\\x1b[2J\\nc\n" {
		t.Errorf("%q", got)
	}
	for n, want := range map[int64]string{
		0: "0", 1023: "1023", 1 << 10: "1Ki", 1536: "1.5Ki", 10 << 30: "10Gi", 1000 << 20: "1000Mi", -1: "0",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
