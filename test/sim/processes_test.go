package sim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/sim/stockmodel"
)

// role is the role of a process under test.
type role string

const (
	provisioner role = "csi-provisioner"
	controllers role = "controllers" // the binder and the protection controllers
	plane       role = "plane"       // both in one process, with a hand-off queue
)

// processSet is the set of processes of a run: the roles under test and the models of other
// controllers, with the invariants at the end.
type processSet struct {
	ours        []role
	startOthers func(*world)
	kinds       []client.Object // that ours watch
	check       func(end)
	copies      bool         // volumes are made from snapshots and other volumes
	disturb     func(*world) // happens in place of the deletion of all claims; nil for that
}

var (
	besideStock = &processSet{
		ours: []role{provisioner}, startOthers: stock, check: end.ofProvisioner,
		kinds: []client.Object{
			&corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}, &storagev1.StorageClass{}, &storagev1.VolumeAttachment{},
		},
	}
	besideForeign = &processSet{
		ours: []role{controllers}, startOthers: foreign, check: end.ofControllers,
		kinds: []client.Object{&corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}, &storagev1.StorageClass{}, &corev1.Pod{}},
	}
	besideOurs = &processSet{ours: []role{controllers, provisioner}, startOthers: alone, check: end.ofBoth, kinds: besideForeign.kinds}
	together   = &processSet{ours: []role{plane}, startOthers: alone, check: end.ofBoth, kinds: besideForeign.kinds}
)

func (w workload) kinds() []client.Object {
	switch {
	case w.nodes:
		return append(slices.Clone(besideStock.kinds), &corev1.Node{}, &storagev1.CSINode{})
	case w.processSet == nil:
		return besideStock.kinds
	}
	return w.processSet.kinds
}

func alone(*world) {}

func stock(w *world) {
	all := &stockmodel.Controllers{Server: w.server, Client: w.server.Client()}
	go all.Run(w.ctx)
}

func foreign(w *world) {
	other := &stockmodel.Provisioner{Server: w.server, Client: w.server.Client(), Driver: driverName, Deleting: w.deletingVolume}
	go other.Run(w.ctx)
}
