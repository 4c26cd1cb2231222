package explain

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/objects"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// reclaimRefused explains a volume that its provisioner does not delete by its own decision, why.
// Where that is not known, unread has the kinds that it lacks.
func (c *Cluster) reclaimRefused(
	pv *corev1.PersistentVolume, driver string, f Finding,
) (why verdict.Finding, found []Finding, unread []Evidence) {
	why.Reason = verdict.VolumeReclaim
	if driver == "" || pv.Spec.CSI == nil && !objects.IsInTree(pv) {
		return why, []Finding{notDeletable(pv, f)}, nil
	}
	s, missing, err := c.Gather.Reclaim(pv.Name, reclaim.Driver{Name: driver, Controller: capable})
	if unread = c.undecided(f.Object, missing, err); unread != nil {
		return why, nil, unread
	}
	decided := reclaim.Decide(s, c.Now)
	refused, ok := decided.(verdict.Refuse[reclaim.Action])
	if !ok {
		return decided.Because(), nil, nil
	}
	f = decidedBy(refused.Finding, f)
	f.Actor, f.Evidence = Administrator, []Evidence{{
		f.Object, "spec.csi.volumeHandle", quoted(reclaim.Handle(pv, driver)), "",
	}}
	if refused.Reason == verdict.VolumeShared {
		f.Cause = volumeRef(reclaim.SharedWith(s))
		f.Evidence = append(f.Evidence, Evidence{
			f.Cause, "spec.csi.volumeHandle", f.Evidence[0].Value, "another handle",
		})
	}
	f.Fix[0].Command = shell.Command("kubectl describe pv %s", f.Cause.Name)
	return refused.Finding, []Finding{f}, nil
}

// notDeletable is about a volume that no CSI driver serves.
func notDeletable(pv *corev1.PersistentVolume, f Finding) Finding {
	f.Reason, f.Actor, f.WaitsFor = verdict.VolumeNotDeletable, Administrator, "to be deleted by hand: no CSI driver "+
		"serves it"
	f.Evidence = []Evidence{{volumeRef(pv), "spec.csi", "absent", "a CSI driver"}}
	f.Fix = []Step{{
		Text:    "Clean up the storage, then delete the PersistentVolume",
		Command: shell.Command("kubectl delete pv %s", pv.Name), Risk: "make sure that the data is not needed",
	}}
	return f
}
