package explain

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

func TestWishedIn(t *testing.T) {
	for message, want := range map[string][]Ref{
		`create Claim d-0 for Pod web-0 in StatefulSet web failed error: persistentvolumeclaims "d-0" is forbidden: no`: {
			{Kind: Claim, Name: "d-0"},
		},
		`create Pod web-2 in StatefulSet web failed error: admission webhook "w" denied the request: no`:              {{Kind: Pod, Name: "web-2"}},
		`cannot patch "v" with kind StatefulSet: StatefulSet.apps "v" is invalid: spec: Forbidden: updates`:           {{Kind: StatefulSet, Name: "v"}},
		`updating resource failed: persistentvolumeclaims 'k-0' is forbidden: only dynamically provisioned pvc`:       {{Kind: Claim, Name: "k-0"}},
		`secrets "s" is forbidden: User "u" cannot get resource "secrets"`:                                            nil,
		`failed to provision volume with StorageClass "fast": rpc error: code = ResourceExhausted desc = no space`:    nil,
		`Error creating: Internal error occurred: failed calling webhook "w.example.com": Post "https://a.b.svc:443"`: nil,
	} {
		if got := WishedIn(message); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", message, got, want)
		}
	}
}

// refusing has a StatefulSet of one pod that does not exist, and an event that a user of the namespace can
// have written.
func refusing(message string, change func(*Cluster)) *Cluster {
	template := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	template.Spec.StorageClassName = new("gold")
	template.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{template}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c"}}
	c := &Cluster{Now: noon, StatefulSets: []*appsv1.StatefulSet{set}, Events: []*corev1.Event{{
		InvolvedObject: corev1.ObjectReference{Kind: "StatefulSet", Namespace: "shop", Name: "web"}, Reason: "FailedCreate",
		Message: message, LastTimestamp: ago(time.Minute),
	}}}
	change(c)
	return c.Prepare()
}

func quota(key, hard, used string) *corev1.ResourceQuota {
	name := corev1.ResourceName(key)
	return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "q"}, Status: corev1.ResourceQuotaStatus{
		Hard: corev1.ResourceList{name: resource.MustParse(hard)}, Used: corev1.ResourceList{name: resource.MustParse(used)},
	}}
}

// What the API server would refuse is recomputed, and what the fields of the objects exclude is not believed.
func TestRefusals(t *testing.T) {
	const about = `create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: persistentvolumeclaims "data-web-0" is forbidden: `
	with := func(quotas ...*corev1.ResourceQuota) func(*Cluster) { return func(c *Cluster) { c.Quotas = quotas } }
	scoped := quota("persistentvolumeclaims", "0", "0")
	scoped.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
		ScopeName: "VolumeAttributesClass", Operator: corev1.ScopeSelectorOpIn, Values: []string{"fast"},
	}}}
	for name, tc := range map[string]struct {
		message string
		change  func(*Cluster)
		want    verdict.Reason
	}{
		"exceeded":             {about + "exceeded quota: q, requested: requests.storage=5Gi, used: requests.storage=8Gi, limited: requests.storage=10Gi", with(quota("requests.storage", "10Gi", "8Gi")), verdict.QuotaExceeded},
		"exceeded, and raised": {about + "exceeded quota: q, requested: requests.storage=5Gi, used: requests.storage=8Gi, limited: requests.storage=10Gi", with(quota("requests.storage", "20Gi", "8Gi")), verdict.WorkloadPodsMissing},
		"no event":             {"", with(quota("gold.storageclass.storage.k8s.io/requests.storage", "4Gi", "0")), verdict.QuotaExceeded},
		"another class":        {"", with(quota("lead.storageclass.storage.k8s.io/requests.storage", "4Gi", "0")), verdict.WorkloadPodsMissing},
		"another scope":        {"", with(scoped), verdict.WorkloadPodsMissing},
		"limit that is gone":   {about + "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 5Gi", func(c *Cluster) { c.LimitRanges = []*corev1.LimitRange{} }, verdict.WorkloadPodsMissing},
		"a class that forbids": {about + "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize", with(), verdict.WorkloadPodsMissing},
		"unknown":              {about + "the moon is full", with(), verdict.RequestRefused},
	} {
		report := refusing(tc.message, tc.change).Explain(Ref{StatefulSet, "shop", "web"})
		if report.State != Stuck || report.Findings[0].Reason != tc.want {
			t.Errorf("%s: %s %v, want %s", name, report.State, report.Findings, tc.want)
		}
	}
}

// A quota counts the claims of the namespace where its status has no use.
func TestUsageOfClaims(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}}
	claim.Spec.StorageClassName = new("gold")
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("7Gi")}
	other := claim.DeepCopy()
	other.Namespace = "elsewhere"
	c := &Cluster{Claims: []*corev1.PersistentVolumeClaim{claim, other}}
	for key, want := range map[string]int64{
		"requests.storage": 7 << 30, "persistentvolumeclaims": 1, "count/persistentvolumeclaims": 1,
		"gold.storageclass.storage.k8s.io/requests.storage": 7 << 30, "lead.storageclass.storage.k8s.io/requests.storage": 0,
	} {
		of := quota(key, "10Gi", "0")
		of.Status.Used = nil
		if used, _, _ := c.usage(of, corev1.ResourceName(key)); used != want {
			t.Errorf("%s: %d, want %d", key, used, want)
		}
	}
}
