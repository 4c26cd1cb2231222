package sourceprotection

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/purser-csi/purser/internal/core/source"
	"github.com/purser-csi/purser/internal/core/verdict"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/world"
)

// the instance of one node keeps the source of a call that the instance of another node made,
// and whose outcome that one does not know, and that of a request which the next leader would find.
func TestSourceOfACallOnAnotherNode(t *testing.T) {
	ref := source.Ref{Kind: source.KindClaim}
	ref.Namespace, ref.Name = "crew", "logbook"
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, UID: "u", Finalizers: []string{ref.Finalizer()}},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "csi.example", VolumeHandle: "h"}
	builder := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(claim, pv)
	for _, index := range world.SourceIndexes() {
		builder.WithIndex(index.Kind, index.Field, index.Values)
	}
	api, clock := builder.Build(), clocktesting.NewFakeClock(time.Unix(1000, 0))
	call := &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: "h"}}}
	unflushed := error(nil)
	elsewhere, unknown := []*csi.VolumeContentSource{call}, errors.New("busy")
	c := New(Config{
		Settings: reconcile.Settings{Clock: clock}, Cached: api, Live: api, Writer: api, Driver: "csi.example",
		Asks:      func(*corev1.PersistentVolumeClaim) bool { return true },
		Requests:  func(context.Context) ([]*csi.VolumeContentSource, error) { return nil, nil },
		Flushed:   func(context.Context) error { return unflushed },
		Elsewhere: func(context.Context) ([]*csi.VolumeContentSource, error) { return elsewhere, unknown },
	})
	attempt := func() (source.Verdict, error) {
		t.Helper()
		h, err := c.Gather(t.Context(), ref)
		if err != nil || !isRelease(c.Decide(h, clock.Now())) {
			t.Fatalf("%+v, %v", h, err)
		}
		return c.Apply(t.Context(), h, source.Unprotect{})
	}
	isProtected := func() bool {
		now, err := kube.Get(t.Context(), api, ref.NamespacedName, &corev1.PersistentVolumeClaim{})
		return err == nil && source.IsProtected(now, ref)
	}
	if _, err := attempt(); !errors.Is(err, unknown) || !isProtected() {
		t.Errorf("it is not known what other nodes do: %v, protected: %v", err, isProtected())
	}
	unknown = nil
	next, err := attempt()
	if kept, ok := next.(verdict.Wait[source.Action]); err != nil || !ok || !kept.Until.After(clock.Now()) || !isProtected() {
		t.Errorf("another node has a call: %+v, %v, protected: %v", next, err, isProtected())
	}
	elsewhere, unflushed = nil, errors.New("another process has taken over")
	if _, err := attempt(); !errors.Is(err, unflushed) || !isProtected() {
		t.Errorf("the next leader may know of a call: %v, protected: %v", err, isProtected())
	}
	unflushed = nil
	if next, err := attempt(); err != nil || next != nil || isProtected() {
		t.Errorf("no node has a call: %+v, %v, protected: %v", next, err, isProtected())
	}
}
