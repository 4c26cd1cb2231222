package life

import (
	"slices"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	protection "github.com/purser-csi/purser/internal/protection/rules"
)

// relation is how an object is found by what a version of it names.
type relation struct {
	by              relationKind
	namespace, name string
}

type relationKind int

// The kinds of relations. Those without a name are of all objects of which a life may need each.
const (
	claimsWithSource    relationKind = iota
	volumesOfClaim                   // by the namespace and the name of the claim
	volumesOfHandle                  // by the handle
	unclaimedVolumes                 // without a claimRef
	podsOfClaim                      // by the namespace and the name of the claim
	podsOfDrivers                    // with a sidecar
	attachmentsOfVolume              // by the name of the PersistentVolume
	snapshotsOfClaim                 // by the namespace and the name of the claim
	contentsOfSnapshot               // by the namespace and the name of the snapshot
	contentsOfUID                    // by the uid of the snapshot
	otherEvents                      // about objects of other kinds than those in haveEvents
)

// relationsOf returns the relations of a version. An object may have one of them twice.
func relationsOf(o metav1.Object) (all []relation) {
	add := func(by relationKind, namespace, name string) { all = append(all, relation{by, namespace, name}) }
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		if o.Spec.DataSource != nil || o.Spec.DataSourceRef != nil {
			add(claimsWithSource, "", "")
		}
	case *corev1.PersistentVolume:
		return volumeRelations(o)
	case *corev1.Pod:
		for _, name := range protection.ClaimNames(o) {
			add(podsOfClaim, o.Namespace, name)
		}
		if explain.HasSidecar(&o.Spec) {
			add(podsOfDrivers, "", "")
		}
	case *storagev1.VolumeAttachment:
		add(attachmentsOfVolume, "", deref(o.Spec.Source.PersistentVolumeName))
	case *snapshotv1.VolumeSnapshot:
		if claim := o.Spec.Source.PersistentVolumeClaimName; claim != nil {
			add(snapshotsOfClaim, o.Namespace, *claim)
		}
	case *snapshotv1.VolumeSnapshotContent:
		of := o.Spec.VolumeSnapshotRef
		add(contentsOfSnapshot, of.Namespace, of.Name)
		add(contentsOfUID, "", string(of.UID))
	case *corev1.Event:
		if !slices.Contains(haveEvents, explain.Kind(o.InvolvedObject.Kind)) {
			add(otherEvents, "", "")
		}
	}
	return all
}

func volumeRelations(pv *corev1.PersistentVolume) []relation {
	all := []relation{{by: unclaimedVolumes}}
	if of := pv.Spec.ClaimRef; of != nil {
		all[0] = relation{volumesOfClaim, of.Namespace, of.Name}
	}
	if pv.Spec.CSI != nil {
		all = append(all, relation{by: volumesOfHandle, name: pv.Spec.CSI.VolumeHandle})
	}
	return all
}

// haveEvents are the kinds whose events a life needs for its own objects alone.
var haveEvents = []explain.Kind{explain.Claim, explain.Volume, explain.Pod, explain.Snapshot, explain.Content}

// relatives returns the objects with a relation.
func (x *Index) relatives(by relationKind, namespace, name string) []*versions {
	return x.related[relation{by, namespace, name}]
}
