package live

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/roles/datasource"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/test/rolestest"
)

// The validator waits for the custom resource, warns of a source that no populator serves, once, and again
// when the populator goes (DV-4, DV-H1). It has the permissions that it ships with.
func TestDataSourceValidator(t *testing.T) {
	t.Parallel()
	p := newLiveCluster(t)
	v := datasource.New()
	log := &rolestest.Log{}
	v.Version, v.API, v.Log = "test", p.as("volume-data-source-validator"), log.Logger()
	where := make(chan net.Addr, 1)
	v.Listened = func(a net.Addr) { where <- a }
	p.begin(v, &v.Started, quickly)
	metrics := fmt.Sprintf("http://%s/metrics", <-where)
	early := p.sourced("early", "Bye") // before the custom resource
	p.sourced("waiting", "Hello")
	if err := p.server.Install(t.Context(), filepath.Join("testdata", "volumepopulators.yaml")); err != nil {
		t.Fatal(err)
	}
	hello := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "populator.storage.k8s.io/v1beta1", "kind": "VolumePopulator",
		"metadata":   map[string]any{"name": "hello"},
		"sourceKind": map[string]any{"group": "hello.example.com", "kind": "Hello"},
	}}
	rolestest.Eventually(t, "the custom resource is served", func() error { return p.user.Create(t.Context(), hello) })
	rolestest.Eventually(t, "the early claim has its event", func() error { return p.unrecognized(early) })
	rolestest.Eventually(t, "the cache has the VolumePopulator, and the waiting claim is checked again", func() error {
		for _, m := range scrape(t, metrics)[telemetry.MetricDataSources.Name].GetMetric() {
			if m.GetLabel()[0].GetValue() == "populator" {
				return nil
			}
		}
		return errors.New("not yet")
	})
	served, unserved := p.sourced("served", "Hello"), p.sourced("unserved", "Bye")
	ofClaim := p.sourced("of-claim", "")
	rolestest.Eventually(t, "the unserved claim has its event", func() error { return p.unrecognized(unserved) })
	if p.unrecognized(served) == nil || p.unrecognized(ofClaim) == nil {
		t.Error("a claim with a served source has the event")
	}
	p.remove(hello)
	rolestest.Eventually(t, "the served claim has it when its populator goes", func() error { return p.unrecognized(served) })
}

// sourced creates a claim with a source of a kind in the group hello.example.com, or with a claim as its
// source for no kind.
func (p liveCluster) sourced(name, kind string) *corev1.PersistentVolumeClaim {
	p.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1Name(name)}
	claim.Namespace = "default"
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claim.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "a"}
	if kind != "" {
		claim.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: new("hello.example.com"), Kind: kind, Name: "a"}
	}
	p.create(claim)
	return claim
}

// unrecognized returns nil if the claim has the validator's event.
func (p liveCluster) unrecognized(claim *corev1.PersistentVolumeClaim) error {
	var events corev1.EventList
	if err := p.user.List(p.Context(), &events, client.InNamespace(claim.Namespace)); err != nil {
		return err
	}
	for _, e := range events.Items {
		if e.InvolvedObject.UID == claim.UID && e.Reason == "UnrecognizedDataSourceKind" &&
			e.Source.Component == "volume-data-source-validator" {
			return nil
		}
	}
	return fmt.Errorf("claim %s has no event UnrecognizedDataSourceKind among %d", claim.Name, len(events.Items))
}
