package up

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/purser-csi/purser/internal/kube"
)

// A terminating pod of the node goes once none of its volumes is published; other pods stay.
func TestTerminatingPodsAreRemoved(t *testing.T) {
	pod := func(name, node string, terminating bool) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
			Spec:       corev1.PodSpec{NodeName: node},
		}
		if terminating {
			p.DeletionTimestamp, p.Finalizers = new(metav1.Now()), []string{"test/marks-terminating"}
		}
		return p
	}
	r := podRemover{nodes: map[string]bool{"here": true}, folder: t.TempDir()}
	link := filepath.Join(r.folder, "pods", "published", "volumes", "mount")
	if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", link); err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(
		pod("runs", "here", false), pod("elsewhere", "there", true), pod("published", "here", true), pod("ends", "here", true)).Build()
	deletes := &deleteRecorder{Client: api}
	expect := func(want ...string) {
		t.Helper()
		deletes.names = nil
		if err := r.removeAll(t.Context(), api, deletes); err != nil {
			t.Fatal(err)
		}
		if len(deletes.names) != len(want) || len(want) > 0 && deletes.names[len(want)-1] != want[len(want)-1] {
			t.Errorf("deleted %q, want %q", deletes.names, want)
		}
	}
	expect("ends")
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	expect("ends", "published")
}

// deleteRecorder records the names of deleted objects, and deletes nothing.
type deleteRecorder struct {
	client.Client
	names []string
}

// Delete implements client.Writer.
func (d *deleteRecorder) Delete(_ context.Context, object client.Object, _ ...client.DeleteOption) error {
	d.names = append(d.names, object.GetName())
	return nil
}
