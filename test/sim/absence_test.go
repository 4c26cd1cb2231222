package sim

import (
	"context"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// days is longer than the time after which an entry that was not renewed is dropped.
const days = 2 * intent.MaxUnrenewed

// absences are days without a process, in which another provisioner may have served the claims.
// Entries of deleted claims from before are not acted on. An entry from afterwards is, also beside
// the old ones and when its process dies as well (H-1).
func absences(calm result, _ extent) (all []schedule) {
	if !calm.work.small || calm.work.nodes {
		return nil
	}
	absent := schedule{downFor: briefly, alone: days}
	for n := 1; n <= calm.ops; n++ {
		s := absent
		s.crashes = []crash{{n, lost}}
		deleted := s
		deleted.deleteWhileDown = true
		all = append(all, s, deleted)
	}
	begun := calm.calls[0]
	absent.joins, absent.deleteWhileDown = true, true
	for _, where := range []position{before, inFlight} {
		for next := begun + 1; next <= begun+10; next++ {
			for _, then := range []position{before, lost} {
				s := absent
				s.crashes = []crash{{begun, where}, {next, then}}
				all = append(all, s)
			}
		}
	}
	return all
}

// keepUnclaimed is another provisioner that has served claims while there was no process of
// ours, and an administrator who kept the data when they went, and has taken the PersistentVolumes
// away.
func (w *world) keepUnclaimed() {
	volumes, claims := apiserver.Objects(w.server, &corev1.PersistentVolume{}), apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{})
	for _, v := range w.driver.Volumes() {
		if slices.ContainsFunc(volumes, func(pv *corev1.PersistentVolume) bool { return ofDriver(pv) && pv.Spec.CSI.VolumeHandle == v.ID }) ||
			slices.ContainsFunc(claims, func(c *corev1.PersistentVolumeClaim) bool { return v.Name == "pvc-"+string(c.UID) }) {
			continue
		}
		w.log("administrator has kept volume %s", v.ID)
		w.interventions.add(w.interventions.retained, v.ID)
		w.interventions.add(w.interventions.mayRemain, v.ID)
	}
}

// join is a user who asks for a claim.
func (w *world) join() {
	u := &user{world: w, api: w.server.Client()}
	u.claim("late")
	u.selectNode("late") // where the class wants a consumer
}

// attended returns each Lease as just renewed.
type attended struct{ client.Client }

func (a attended) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := a.Client.Get(ctx, key, o, opts...)
	if page, ok := o.(*coordinationv1.Lease); ok && err == nil {
		page.Spec.RenewTime = new(metav1.NowMicro())
	}
	return err
}
