package live

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/rolestest"
)

const (
	chartDriver  = "csi.purser"
	chartNodeKey = "topology.csi.purser/node"
	chartAccount = "purser-driver"
)

// onNodes is a cluster with the chart for volumes on several nodes, and two nodes.
func onNodes(t *testing.T) (p liveCluster, pod corev1.PodSpec) {
	t.Helper()
	p = newLiveCluster(t)
	p.snapshotKinds()
	for _, r := range renderedCharts(t) {
		if r.name != "snapshots" {
			continue
		}
		for _, object := range r.objects {
			if object.GetKind() == "CustomResourceDefinition" {
				continue
			}
			err := p.user.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("helm"), client.ForceOwnership)
			if err != nil {
				t.Fatal(object.GetName(), err)
			}
		}
		for _, w := range r.workloads(t) {
			if w.pod.ServiceAccountName == chartAccount {
				pod = w.pod
			}
		}
	}
	for _, node := range []string{"node-a", "node-b"} {
		p.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{chartNodeKey: node}}})
	}
	return p, pod
}

// asPodOn returns what a process with the token of the driver's pod on a node uses. Without a node the
// token is that of no pod.
func (p liveCluster) asPodOn(node string) *rest.Config {
	p.Helper()
	request := &authenticationv1.TokenRequest{}
	if node != "" {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: process.SystemNamespace, Name: "driver-" + node},
			Spec: corev1.PodSpec{
				NodeName: node, ServiceAccountName: chartAccount, AutomountServiceAccountToken: new(false),
				Containers: []corev1.Container{{Name: "driver", Image: "purser"}},
			},
		}
		p.create(pod)
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: process.SystemNamespace, Name: chartAccount}}
	if err := p.user.SubResource("token").Create(p.Context(), account, request); err != nil {
		p.Fatal(err)
	}
	config := rest.AnonymousClientConfig(p.server.RESTConfig())
	config.BearerToken = request.Status.Token
	return config
}

// localVolume is a volume of a driver on a node.
func localVolume(name, driver, node string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1Name(name), Spec: corev1.PersistentVolumeSpec{
		Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: driver, VolumeHandle: name,
			VolumeAttributes: map[string]string{names.AttributeProvisionerIdentity: "1-2-" + driver + "-" + node},
		}},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: chartNodeKey, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}}}},
	}}
}

// withoutAffinity is a volume whose provisioner has no topology.
func withoutAffinity(pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	pv.Spec.NodeAffinity = nil
	return pv
}

// localClaim creates a claim as the scheduler and the PV controller leave it for a provisioner.
func (p liveCluster) localClaim(name, driver, node string) *corev1.PersistentVolumeClaim {
	p.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{names.AnnStorageProvisioner: driver}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("purser"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	if node != "" {
		claim.Annotations[names.AnnSelectedNode] = node
	}
	p.create(claim)
	return claim
}

// content is a content whose snapshot is taken on a node.
func content(name, node string) *snapshotv1.VolumeSnapshotContent {
	return &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{names.LabelSnapshotNode: node}},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			Driver: chartDriver, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
			Source:            snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: new(name)},
			VolumeSnapshotRef: corev1.ObjectReference{Namespace: "default", Name: name},
		},
	}
}

func capacityOf(name, node string) *storagev1.CSIStorageCapacity {
	return &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: process.SystemNamespace, Name: name, Labels: map[string]string{names.LabelCapacityManagedBy: names.CapacityManager(node)},
		},
		StorageClassName: "purser",
	}
}

func journalOf(node string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: process.SystemNamespace, Name: names.JournalLeasePrefix + process.DriverLeaseName(chartDriver) + "-" + node,
	}}
}

// The token of the sidecars on node-a writes what belongs to volumes there, and nothing of node-b, of other
// drivers or of the cluster, on a real API server with the chart's role and policy. The rows of a token
// without a node show that the role alone would allow each.
func TestNodeTokenMayNot(t *testing.T) {
	p, _ := onNodes(t)
	api := p.asPodOn("node-a")
	a, err := client.New(api, client.Options{Scheme: p.user.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	rolestest.Eventually(t, "the policy is in force", func() error { // it takes effect some time after it is written
		err := a.Create(t.Context(), localVolume("probe", chartDriver, "node-b"), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") { // not of a role that is not in force
			return fmt.Errorf("a volume of node-b: %w", err)
		}
		return nil
	})
	mine, other := p.localClaim("mine", chartDriver, "node-a"), p.localClaim("other", chartDriver, "node-b")
	free, foreign := p.localClaim("free", chartDriver, ""), p.localClaim("foreign", "other.csi", "")
	here, there := localVolume("here", chartDriver, "node-a"), localVolume("there", chartDriver, "node-b")
	contentHere, contentThere := content("here", "node-a"), content("there", "node-b")
	p.create(here, there, contentHere, contentThere, capacityOf("there", "node-b"), journalOf("node-b"))
	snapshot := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"},
		Spec:       snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: new("mine")}},
	}
	p.create(snapshot)
	source := p.localClaim("source", chartDriver, "node-b")
	kept := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kept"}, Spec: snapshot.Spec}
	p.create(kept)
	p.finalizers(source, names.FinalizerCloneSource, "example.com/f")
	p.finalizers(kept, names.FinalizerRestoreSource)

	create := func(o client.Object) func(client.Client) error {
		return func(c client.Client) error {
			return c.Create(t.Context(), o.DeepCopyObject().(client.Object), client.DryRunAll)
		}
	}
	remove := func(o client.Object) func(client.Client) error {
		return func(c client.Client) error { return c.Delete(t.Context(), o, client.DryRunAll) }
	}
	annotate := func(o client.Object, key, value string) func(client.Client) error {
		return func(c client.Client) error {
			return change(t.Context(), p.user, c, o, annotated(key, value))
		}
	}
	finalize := func(o client.Object, finalizer string) func(client.Client) error {
		return func(c client.Client) error {
			return change(t.Context(), p.user, c, o, func(o client.Object) { o.SetFinalizers(append(o.GetFinalizers(), finalizer)) })
		}
	}
	unfinalize := func(o client.Object, finalizer string) func(client.Client) error {
		return func(c client.Client) error {
			return change(t.Context(), p.user, c, o, func(o client.Object) {
				o.SetFinalizers(slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == finalizer }))
			})
		}
	}
	own := func(o client.Object) func(client.Client) error {
		return func(c client.Client) error {
			return change(t.Context(), p.user, c, o, func(o client.Object) {
				o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "gone", UID: "gone"}})
			})
		}
	}
	patch := func(o client.Object, key string) func(client.Client) error {
		return func(c client.Client) error {
			body := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"b"}}}`, key))
			return c.Patch(t.Context(), o.DeepCopyObject().(client.Object), body, client.DryRunAll)
		}
	}
	status := func(claim *corev1.PersistentVolumeClaim) func(client.Client) error {
		return func(c client.Client) error {
			body := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"capacity":{"storage":"9Gi"}}}`))
			return c.Status().Patch(t.Context(), claim.DeepCopy(), body, &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}})
		}
	}
	rows := map[string]struct {
		do      func(client.Client) error
		allowed bool
	}{
		"create a volume here":                         {create(localVolume("new", chartDriver, "node-a")), true},
		"create a volume here, without topology":       {create(withoutAffinity(localVolume("new", chartDriver, "node-a"))), true},
		"create a volume of node-b":                    {create(localVolume("new", chartDriver, "node-b")), false},
		"create a volume of node-b, without topology":  {create(withoutAffinity(localVolume("new", chartDriver, "node-b"))), false},
		"create a volume of another driver":            {create(localVolume("new", "other.csi", "node-a")), false},
		"create a volume with another source":          {create(hostPath(localVolume("new", chartDriver, "node-a"))), false},
		"annotate a volume here":                       {patch(here, "a"), true},
		"annotate a volume of node-b":                  {patch(there, "a"), false},
		"delete a volume here":                         {remove(here), true},
		"delete a volume of node-b":                    {remove(there), false},
		"give back a claim of this node":               {annotate(mine, names.AnnSelectedNode, ""), true},
		"take a claim without a node":                  {annotate(free, names.AnnSelectedNode, "node-a"), true},
		"give a claim to node-b":                       {annotate(free, names.AnnSelectedNode, "node-b"), false},
		"take a claim of node-b":                       {annotate(other, names.AnnSelectedNode, "node-a"), false},
		"annotate a claim of another driver":           {annotate(foreign, "a", "b"), false},
		"take over a claim of another driver":          {annotate(foreign, names.AnnStorageProvisioner, chartDriver), false},
		"keep a claim of node-b as source":             {finalize(other, names.FinalizerCloneSource), true},
		"another finalizer on a claim of node-b":       {finalize(other, "example.com/f"), false},
		"keep a snapshot as source":                    {finalize(snapshot, names.FinalizerRestoreSource), true},
		"let a claim of node-b go as source":           {unfinalize(source, names.FinalizerCloneSource), true},
		"let a snapshot go as source":                  {unfinalize(kept, names.FinalizerRestoreSource), true},
		"another finalizer of a claim of node-b":       {unfinalize(source, "example.com/f"), false},
		"have a claim of node-b garbage-collected":     {own(other), false},
		"have a snapshot garbage-collected":            {own(snapshot), false},
		"annotate a snapshot":                          {annotate(snapshot, "a", "b"), false},
		"expand a claim of this node":                  {status(mine), true},
		"expand a claim of node-b":                     {status(other), false},
		"expand a claim of another driver":             {status(foreign), false},
		"annotate the content of a snapshot here":      {patch(contentHere, "a"), true},
		"annotate the content of a snapshot on node-b": {patch(contentThere, "a"), false},
		"write the journal of this node":               {create(journalOf("node-a")), true},
		"write the journal of node-b":                  {annotate(journalOf("node-b"), "a", "b"), false},
		"delete the journal of node-b":                 {remove(journalOf("node-b")), false},
		"take the lease of the controllers":            {create(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: process.SystemNamespace, Name: "purser-controllers"}}), false},
		"publish the capacity of this node":            {create(capacityOf("new", "node-a")), true},
		"publish a capacity of node-b":                 {create(capacityOf("new", "node-b")), false},
		"delete a capacity of node-b":                  {remove(capacityOf("there", "node-b")), false},
		"read nodes":                                   {func(c client.Client) error { return c.List(t.Context(), &corev1.NodeList{}) }, false},
		"read secrets":                                 {func(c client.Client) error { return c.List(t.Context(), &corev1.SecretList{}) }, false},
		"read pods":                                    {func(c client.Client) error { return c.List(t.Context(), &corev1.PodList{}) }, false},
	}
	none, err := client.New(p.asPodOn(""), client.Options{Scheme: p.user.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		if err := row.do(a); refused(err) == row.allowed || err != nil && !refused(err) {
			t.Errorf("node-a, %s: want allowed=%t: %v", name, row.allowed, err)
		}
		if err := row.do(none); !refused(err) {
			t.Errorf("a token of no pod, %s: %v", name, err)
		}
	}
}

// finalizers sets those of an object.
func (p liveCluster) finalizers(o client.Object, all ...string) {
	p.Helper()
	before := o.DeepCopyObject().(client.Object)
	o.SetFinalizers(all)
	if err := p.user.Patch(p.Context(), o, client.MergeFrom(before)); err != nil {
		p.Fatal(err)
	}
}

// refused reports whether the API server forbade a request, by a role or by a policy.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
}

// hostPath is a volume that would show files of the node.
func hostPath(pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
	return pv
}

// change updates an object as it is now, in a dry run.
func change(ctx context.Context, reader, writer client.Client, object client.Object, edit func(client.Object)) error {
	now := object.DeepCopyObject().(client.Object)
	if err := reader.Get(ctx, client.ObjectKeyFromObject(object), now); err != nil {
		return err
	}
	edit(now)
	return writer.Update(ctx, now, client.DryRunAll)
}

// annotated sets an annotation.
func annotated(key, value string) func(client.Object) {
	return func(o client.Object) {
		all := maps.Clone(o.GetAnnotations())
		if all == nil {
			all = map[string]string{}
		}
		all[key] = value
		o.SetAnnotations(all)
	}
}
