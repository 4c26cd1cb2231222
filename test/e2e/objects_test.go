package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/e2e/stage"
)

// patience bounds every wait. Most waits take milliseconds on an idle machine, but some depend on
// the resync of the stock PV controller every 15 seconds.
const patience = time.Minute

// eventually waits until missing returns nil.
func eventually(t *testing.T, missing func(context.Context) error) {
	t.Helper()
	eventuallyWithin(t, patience, missing)
}

// eventuallyWithin is eventually with a bound of its own.
func eventuallyWithin(t *testing.T, bound time.Duration, missing func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, bound, true, func(ctx context.Context) (bool, error) {
		now := missing(ctx)
		if now == nil || last == nil || ctx.Err() == nil { // the last error says more than the timeout
			last = now
		}
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("after %s: %v", bound, last)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// testNamespace is the namespace of a test, with methods for the objects in it.
type testNamespace struct {
	*stage.Stage
	name string
}

func newTestNamespace(t *testing.T, s *stage.Stage) testNamespace {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
	must(t, s.Client.Create(t.Context(), namespace))
	return testNamespace{Stage: s, name: namespace.Name}
}

// class creates a StorageClass of the test. change may be nil.
func (b testNamespace) class(t *testing.T, change func(*storagev1.StorageClass)) *storagev1.StorageClass {
	t.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: b.name}, Provisioner: builtIn,
		ReclaimPolicy: ptr.To(corev1.PersistentVolumeReclaimDelete), VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate),
	}
	if change != nil {
		change(class)
	}
	must(t, b.Client.Create(t.Context(), class))
	return class
}

// builtIn is the name of the driver inside of `up`.
const builtIn = "csi.purser"

// newClaim returns a claim of a class; "" means the default one.
func (b testNamespace) newClaim(name, class string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("4Mi")}},
		},
	}
	if class != "" {
		claim.Spec.StorageClassName = &class
	}
	return claim
}

func (b testNamespace) claim(t *testing.T, name, class string) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim := b.newClaim(name, class)
	must(t, b.Client.Create(t.Context(), claim))
	return claim
}

// awaitBound returns the claim's PersistentVolume.
func (b testNamespace) awaitBound(t *testing.T, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		if err := b.Client.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if claim.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("claim %s is %s; its events:\n%s", claim.Name, claim.Status.Phase, b.story(ctx, claim))
		}
		return nil
	})
	pv := &corev1.PersistentVolume{}
	must(t, b.Client.Get(t.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, pv))
	return pv
}

// awaitGone waits until the object does not exist.
func (b testNamespace) awaitGone(t *testing.T, o client.Object) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		err := b.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("%T %s still exists, finalizers %v", o, o.GetName(), o.GetFinalizers())
	})
}

func (b testNamespace) delete(t *testing.T, o client.Object, options ...client.DeleteOption) {
	t.Helper()
	must(t, b.Client.Delete(t.Context(), o, options...))
}

// passBy creates a claim, waits until it is bound, and deletes it. Afterwards the controllers have
// processed all earlier writes, so that a test can assert that something does not happen.
func (b testNamespace) passBy(t *testing.T, name string) {
	t.Helper()
	claim := b.claim(t, name, "purser")
	pv := b.awaitBound(t, claim)
	b.delete(t, claim)
	b.awaitGone(t, pv)
}

// events about an object, written by components whose name begins with source.
func (b testNamespace) events(ctx context.Context, about client.Object, source string) ([]corev1.Event, error) {
	var all corev1.EventList
	if err := b.Client.List(ctx, &all, client.InNamespace(b.name)); err != nil {
		return nil, err
	}
	var found []corev1.Event
	for _, e := range all.Items {
		if e.InvolvedObject.UID == about.GetUID() && strings.HasPrefix(e.Source.Component, source) {
			found = append(found, e)
		}
	}
	return found, nil
}

// story returns the events of an object as text.
func (b testNamespace) story(ctx context.Context, about client.Object) string {
	events, err := b.events(ctx, about, "")
	if err != nil {
		return err.Error()
	}
	var told strings.Builder
	for _, e := range events {
		fmt.Fprintf(&told, "  %s %s from %s: %s\n", e.Type, e.Reason, e.Source.Component, e.Message)
	}
	return told.String()
}

// awaitEvent waits for an event whose message has the words.
func (b testNamespace) awaitEvent(t *testing.T, about client.Object, source, kind, reason, words string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		events, err := b.events(ctx, about, source)
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.Type == kind && e.Reason == reason && strings.Contains(e.Message, words) {
				return nil
			}
		}
		return fmt.Errorf("no event %s %s with %q from %s; there are\n%s", kind, reason, words, source, b.story(ctx, about))
	})
}

// folder returns the path of a claim's volume in the built-in driver.
func (b testNamespace) folder(claim *corev1.PersistentVolumeClaim) string {
	return filepath.Join(b.VolumesDir(), "pvc-"+string(claim.UID))
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// folders returns the number of volumes of the built-in driver.
func folders(t *testing.T, s *stage.Stage) int {
	t.Helper()
	entries, err := os.ReadDir(s.VolumesDir())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return len(entries)
}

// examples is the folder with the manifests that the README shows.
func examples(t *testing.T) string {
	t.Helper()
	root, err := stage.Root()
	must(t, err)
	return filepath.Join(root, "examples")
}

// manifests reads the objects of an example, and sets the namespace of the test.
func (b testNamespace) manifests(t *testing.T, name string) []*unstructured.Unstructured {
	t.Helper()
	objects := documents(t, filepath.Join(examples(t), name))
	for _, o := range objects {
		if o.GetKind() != "StorageClass" {
			o.SetNamespace(b.name)
		}
	}
	return objects
}
