package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/sim/apiserver"
	"github.com/purser-csi/purser/test/sim/csidriver"
)

// delayedOn has nodes, a class that waits for one of them, and a scheduler that tries them in turn.
func delayedOn(nodes ...string) func(*user) {
	return func(u *user) {
		delayed(u)
		for _, name := range nodes {
			_ = u.api.Create(u.world.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{csidriver.KeyNode: name}}})
			_ = u.api.Create(u.world.ctx, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{
				Drivers: []storagev1.CSINodeDriver{{Name: driverName, NodeID: name, TopologyKeys: []string{csidriver.KeyNode}}},
			}})
		}
		go u.schedule(nodes)
	}
}

// schedule is the scheduler, with a pod for each claim: it selects a node for each that has none,
// and another one when the selection was taken back, each time after a longer pause.
func (u *user) schedule(nodes []string) {
	rest := 97 * time.Millisecond
	for turn := 0; u.world.ctx.Err() == nil; time.Sleep(rest) {
		for _, claim := range apiserver.Objects(u.world.server, &corev1.PersistentVolumeClaim{}) {
			if claim.Annotations[names.AnnSelectedNode] != "" || claim.Spec.VolumeName != "" {
				continue
			}
			for !u.hasNode(nodes[turn%len(nodes)]) {
				turn++
			}
			u.world.log("the scheduler selects node %s for claim %s", nodes[turn%len(nodes)], claim.Name)
			metav1.SetMetaDataAnnotation(&claim.ObjectMeta, names.AnnSelectedNode, nodes[turn%len(nodes)])
			if u.api.Update(u.world.ctx, claim) == nil {
				turn++
				rest = min(2*rest, 10*time.Second)
			}
		}
	}
}

func (u *user) hasNode(name string) bool {
	return u.api.Get(u.world.ctx, client.ObjectKey{Name: name}, &corev1.Node{}) == nil
}

func (u *user) untilSelected(name string) {
	u.until(func() bool {
		claim := u.get(name)
		return claim == nil || claim.Annotations[names.AnnSelectedNode] != ""
	})
}

// removeNode takes a node away, as a cluster that scales down does.
func (u *user) removeNode(name string) {
	u.step()
	u.world.log("node %s is removed", name)
	_ = u.api.Delete(u.world.ctx, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}})
	_ = u.api.Delete(u.world.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// placed is that each PersistentVolume says where its volume is.
func (e end) placed() {
	for _, v := range e.driver.Volumes() {
		i := slices.IndexFunc(e.volumes, func(pv *corev1.PersistentVolume) bool { return ofDriver(pv) && pv.Spec.CSI.VolumeHandle == v.ID })
		if i < 0 || v.Request == nil {
			continue
		}
		if is, says := csidriver.NodeOf(v.Request), affinityOf(e.volumes[i]); is != says {
			e.violate("I10: volume %s is on node %q, and PersistentVolume %s says %q", v.Name, is, e.volumes[i].Name, says)
		}
	}
}

func affinityOf(pv *corev1.PersistentVolume) string {
	if pv.Spec.NodeAffinity == nil {
		return ""
	}
	return pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
}
