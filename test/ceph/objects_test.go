package ceph

import (
	"context"
	"errors"
	"fmt"
	"slices"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	namespaceOfTests = "default"
	nameOfAll        = "ceph" // the secret and the classes
	small, large     = "64Mi", "128Mi"
)

// play has the Kubernetes objects of one driver.
type play struct {
	*rig

	api    client.Client
	driver *driver
	// snapshots says that the cluster has the kinds of snapshots.
	snapshots bool
}

// withSecrets adds what a class says of the secret.
func withSecrets(parameters map[string]string, uses ...string) map[string]string {
	for _, use := range uses {
		parameters["csi.storage.k8s.io/"+use+"-secret-name"] = nameOfAll
		parameters["csi.storage.k8s.io/"+use+"-secret-namespace"] = namespaceOfTests
	}
	return parameters
}

// classes creates the secret and the classes of the driver.
func (p play) classes() {
	p.Helper()
	p.must(p.api.Create(p.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOfTests, Name: nameOfAll},
		StringData: map[string]string{"userID": user, "userKey": p.key, "adminID": user, "adminKey": p.key},
	}))
	parameters := map[string]string{"clusterID": p.fsid, "pool": pool, "imageFeatures": "layering"}
	if p.driver.kind == cephfs {
		parameters = map[string]string{"clusterID": p.fsid, "fsName": filesystem, "mounter": "fuse"}
	}
	p.must(p.api.Create(p.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: nameOfAll}, Provisioner: p.driver.name, AllowVolumeExpansion: new(true),
		Parameters: withSecrets(parameters, "provisioner", "controller-expand", "node-stage"),
	}))
	if !p.snapshots {
		return
	}
	p.must(p.api.Create(p.Context(), &snapshotv1.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: nameOfAll}, Driver: p.driver.name,
		DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
		Parameters:     withSecrets(map[string]string{"clusterID": p.fsid}, "snapshotter"),
	}))
}

// claim creates a claim; source may be nil.
func (p play) claim(name, size string, source *corev1.TypedLocalObjectReference) *corev1.PersistentVolumeClaim {
	p.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOfTests, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(nameOfAll), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			DataSource: source, Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
			},
		},
	}
	if !p.driver.mounts { // a raw device is expanded without a node
		claim.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	}
	p.must(p.api.Create(p.Context(), claim))
	return claim
}

// volumeOf is the name of the volume that is provisioned for a claim.
func volumeOf(claim *corev1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }

// awaitBound waits until claims are bound and have a size.
func (p play) awaitBound(size string, claims ...*corev1.PersistentVolumeClaim) {
	p.Helper()
	for _, claim := range claims {
		p.eventually("claim "+claim.Name+" is bound with "+size, func(ctx context.Context) error {
			if err := p.api.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
				return err
			}
			has, wants := claim.Status.Capacity[corev1.ResourceStorage], resource.MustParse(size)
			if claim.Status.Phase != corev1.ClaimBound || has.Cmp(wants) < 0 {
				return fmt.Errorf("%s, %s, %v", claim.Status.Phase, has.String(), p.events(ctx, claim))
			}
			return nil
		})
	}
}

// events are the messages about an object, for an error.
func (p play) events(ctx context.Context, about client.Object) (messages []string) {
	var all corev1.EventList
	if err := p.api.List(ctx, &all, client.InNamespace(about.GetNamespace())); err != nil {
		return []string{err.Error()}
	}
	for _, e := range all.Items {
		if e.InvolvedObject.UID == about.GetUID() {
			messages = append(messages, e.Reason+": "+e.Message)
		}
	}
	return messages
}

// snapshot takes a snapshot of a claim, and waits until it is ready.
func (p play) snapshot(name string, claim *corev1.PersistentVolumeClaim) *snapshotv1.VolumeSnapshot {
	p.Helper()
	s := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOfTests, Name: name},
		Spec: snapshotv1.VolumeSnapshotSpec{
			VolumeSnapshotClassName: new(nameOfAll),
			Source:                  snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim.Name},
		},
	}
	p.must(p.api.Create(p.Context(), s))
	p.eventually("snapshot "+name+" is ready", func(ctx context.Context) error {
		err := p.api.Get(ctx, client.ObjectKeyFromObject(s), s)
		if err == nil && (s.Status == nil || s.Status.ReadyToUse == nil || !*s.Status.ReadyToUse) {
			err = fmt.Errorf("not ready: %v", p.events(ctx, s))
		}
		return err
	})
	return s
}

// remove deletes objects and waits until they are gone.
func (p play) remove(all ...client.Object) {
	p.Helper()
	for _, object := range all {
		p.must(client.IgnoreNotFound(p.api.Delete(p.Context(), object)))
	}
	for _, object := range all {
		p.eventually(object.GetName()+" is gone", func(ctx context.Context) error {
			err := p.api.Get(ctx, client.ObjectKeyFromObject(object), object)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(err, fmt.Errorf("it has %v: %v", object.GetFinalizers(), p.events(ctx, object)))
		})
	}
}

// uuidBytes is the end of a handle of ceph-csi, which is also in the name of the image or subvolume.
const uuidBytes = 36

// recorded returns the names in Ceph of all volumes and snapshots that Kubernetes has.
func (p play) recorded(ctx context.Context) (names []string, err error) {
	var volumes corev1.PersistentVolumeList
	if err := p.api.List(ctx, &volumes); err != nil {
		return nil, err
	}
	for _, v := range volumes.Items {
		handle := v.Spec.CSI.VolumeHandle
		names = append(names, "csi-vol-"+handle[len(handle)-uuidBytes:])
	}
	if !p.snapshots || p.driver.kind == cephfs { // a snapshot of CephFS is part of its subvolume
		return names, nil
	}
	var contents snapshotv1.VolumeSnapshotContentList
	if err := p.api.List(ctx, &contents); err != nil {
		return nil, err
	}
	for _, c := range contents.Items {
		if c.Status != nil && c.Status.SnapshotHandle != nil {
			handle := *c.Status.SnapshotHandle
			names = append(names, "csi-snap-"+handle[len(handle)-uuidBytes:])
		}
	}
	return names, nil
}

// wantNoLeak waits until Ceph has exactly the volumes and snapshots that Kubernetes has: count of them.
func (p play) wantNoLeak(count int) {
	p.Helper()
	p.eventually(fmt.Sprintf("Ceph has what Kubernetes has, %d", count), func(ctx context.Context) error {
		has, err := p.driver.objects(ctx)
		if err != nil {
			return err
		}
		wants, err := p.recorded(ctx)
		slices.Sort(has)
		slices.Sort(wants)
		if err == nil && (!slices.Equal(has, wants) || len(has) != count) {
			err = fmt.Errorf("Ceph has %q, Kubernetes %q, want %d", has, wants, count)
		}
		return err
	})
}

// wantNothing waits until nothing is left, not even in the trash of the pool.
func (p play) wantNothing() {
	p.Helper()
	p.wantNoLeak(0)
	p.eventually("nothing is left in Ceph", func(ctx context.Context) error {
		left, err := p.driver.leftovers(ctx)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left: %q", left)
		}
		return err
	})
}
