package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/e2e/leftover"
)

// uninstall deletes the objects of the chart, those with pods first as helm does, and its namespace. It
// fails when something is left.
func (r *rig) uninstall(objects []*unstructured.Unstructured) {
	r.t.Helper()
	hasPods := func(o *unstructured.Unstructured) bool { return o.GroupVersionKind().Group == "apps" }
	r.delete(objects, hasPods)
	r.awaitNoPods()
	r.leasesAreFree()
	r.delete(objects, func(o *unstructured.Unstructured) bool { return !hasPods(o) })
	r.remove(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: process.SystemNamespace}})
	for _, object := range objects {
		if err := r.Get(r.t.Context(), client.ObjectKeyFromObject(object), object); client.IgnoreNotFound(err) != nil || err == nil {
			r.t.Errorf("%s %s is left: %v", object.GetKind(), object.GetName(), err)
		}
	}
	var leases coordinationv1.LeaseList
	must(r.t, r.List(r.t.Context(), &leases))
	for i := range leases.Items {
		if ns := leases.Items[i].Namespace; ns != "kube-system" && ns != corev1.NamespaceNodeLease {
			r.t.Errorf("the Lease %s is left in %s", leases.Items[i].Name, ns)
		}
	}
	r.driverIsGone()
}

// removeAttributesClass deletes a class while its protection runs, which is a controller of the chart: without
// that its finalizer stays.
func (r *rig) removeAttributesClass(name string) {
	r.t.Helper()
	r.remove(&storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

func (r *rig) delete(objects []*unstructured.Unstructured, which func(*unstructured.Unstructured) bool) {
	r.t.Helper()
	for _, object := range objects {
		if which(object) {
			err := r.Delete(r.t.Context(), object.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground))
			must(r.t, client.IgnoreNotFound(err))
		}
	}
}

func (r *rig) awaitNoPods() {
	r.t.Helper()
	r.eventually(func(ctx context.Context) error {
		var pods corev1.PodList
		if err := r.List(ctx, &pods); err != nil || len(pods.Items) == 0 {
			return err
		}
		return fmt.Errorf("pod %s is left", pods.Items[0].Name)
	})
}

// journalPrefix begins the names of the Leases that hold the journal: no process is elected by them.
const journalPrefix = "purser-intents-"

// leasesAreFree fails when a process has ended without giving its lease back. The Leases go with the
// namespace, as upstream's do.
func (r *rig) leasesAreFree() {
	r.t.Helper()
	var leases coordinationv1.LeaseList
	must(r.t, r.List(r.t.Context(), &leases, client.InNamespace(process.SystemNamespace)))
	for i := range leases.Items {
		l := &leases.Items[i]
		if !strings.HasPrefix(l.Name, journalPrefix) && holder(l) != "" {
			r.t.Errorf("the Lease %s is held by %s", l.Name, holder(l))
		}
	}
}

func holder(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// driverIsGone fails when the node still knows of the driver, or has a volume of it.
func (r *rig) driverIsGone() {
	r.t.Helper()
	r.eventually(func(ctx context.Context) error {
		csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
		if err := r.Get(ctx, client.ObjectKeyFromObject(csi), csi); err != nil || len(csi.Spec.Drivers) == 0 {
			return err
		}
		return fmt.Errorf("the CSINode has the driver %s", csi.Spec.Drivers[0].Name)
	})
	mounts, err := leftover.Mounts(r.kubeletDir())
	must(r.t, err)
	for _, at := range mounts {
		if at != r.kubeletDir() {
			r.t.Errorf("%s is mounted", at)
		}
	}
	sockets, err := filepath.Glob(filepath.Join(r.kubeletDir(), "plugins*", "**", "*.sock"))
	must(r.t, err)
	if len(sockets) > 0 {
		r.t.Errorf("sockets are left: %q", sockets)
	}
	kept, err := os.ReadDir(r.stateDir())
	must(r.t, err)
	for _, entry := range kept { // folders are empty: every volume and snapshot is a file
		if name := entry.Name(); !entry.IsDir() && name != "backend" && name != "lock" {
			r.t.Errorf("the driver keeps %s", name)
		}
	}
	for _, kind := range []string{"volumes", "snapshots"} {
		files, err := filepath.Glob(filepath.Join(r.stateDir(), kind, "*"))
		if err != nil || len(files) > 0 {
			r.t.Errorf("the driver keeps %q: %v", files, err)
		}
	}
}
