package sim

import (
	"slices"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// interventions are the actions of users and administrators which the invariants must know of,
// since they change what may be left at the end of a run. It is safe for concurrent use.
type interventions struct {
	mu sync.Mutex
	// mayRemain are handles of volumes that may be left without a PersistentVolume.
	mayRemain map[string]bool
	// retained are handles of volumes whose data an administrator kept. They must not be deleted.
	retained map[string]bool
	// forceDeleted are names of PersistentVolumes that were deleted by force while claims had them.
	forceDeleted map[string]bool
	// recreated are PersistentVolumes that were created under the name of a deleted one. They must
	// stay.
	recreated []*corev1.PersistentVolume
	// policyChanged says that the reclaim policies, and with them the finalizers, are not those of
	// the class.
	policyChanged bool
}

func newInterventions() interventions {
	return interventions{mayRemain: map[string]bool{}, retained: map[string]bool{}, forceDeleted: map[string]bool{}}
}

// add adds a volume to one of the sets.
func (i *interventions) add(set map[string]bool, volume string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	set[volume] = true
}

// includes reports whether one of the sets has the volume.
func (i *interventions) includes(set map[string]bool, volume string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return set[volume]
}

func (i *interventions) addRecreated(pv *corev1.PersistentVolume) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.recreated = append(i.recreated, pv)
}

// dropRecreated is for a user who deletes all volumes, also those that were created again.
func (i *interventions) dropRecreated() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.recreated = nil
}

// deleteClaims deletes all claims, or does what the process set has in place of that.
func (w *world) deleteClaims() {
	if w.work.processSet.disturb != nil {
		w.work.processSet.disturb(w)
		return
	}
	for _, claim := range apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}) {
		w.log("user deletes claim %s", claim.Name)
		_ = w.server.Client().Delete(w.ctx, claim)
	}
}

// replaceVolumes deletes the released volumes by force and creates others under their names, as an
// administrator may.
func (w *world) replaceVolumes() {
	api := w.server.Client()
	for _, pv := range apiserver.Objects(w.server, &corev1.PersistentVolume{}) {
		if pv.Status.Phase != corev1.VolumeReleased || !ofDriver(pv) {
			continue
		}
		w.log("administrator replaces volume %s", pv.Name)
		w.interventions.add(w.interventions.mayRemain, pv.Spec.CSI.VolumeHandle)
		_ = api.Patch(w.ctx, pv.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		_ = api.Delete(w.ctx, pv.DeepCopy())
		recreated := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: pv.Name, Finalizers: []string{names.FinalizerVolume}},
			Spec:       *pv.Spec.DeepCopy(),
		}
		recreated.Spec.ClaimRef = nil
		recreated.Spec.CSI.VolumeHandle = w.driver.Adopt("restored-" + pv.Name)
		_ = api.Create(w.ctx, recreated)
		w.interventions.addRecreated(recreated)
	}
}

// dropVolumes deletes every volume.
func (w *world) dropVolumes() {
	w.interventions.dropRecreated()
	for _, pv := range apiserver.Objects(w.server, &corev1.PersistentVolume{}) {
		w.log("user deletes volume %s", pv.Name)
		_ = w.server.Client().Delete(w.ctx, pv)
	}
}

// dropJournal deletes the journal while a process runs.
func (w *world) dropJournal() {
	pages := apiserver.Objects(w.server, &coordinationv1.Lease{})
	if slices.ContainsFunc(pages, func(page *coordinationv1.Lease) bool { return *page.Spec.HolderIdentity == "" }) {
		return
	}
	for _, page := range pages {
		w.log("administrator deletes lease %s", page.Name)
		_ = w.server.Client().Delete(w.ctx, page)
	}
}
