package provision

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/purser-csi/purser/internal/names"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/reconcile"
)

// memory is what this process knows of claims beyond the API objects and the journal. The zero value is
// that of a fresh process.
type memory struct {
	mu     sync.Mutex
	claims map[types.UID]known
}

// known is what this process knows of one claim.
type known struct {
	// provisioned says that this process has provisioned a volume for the claim, until the informer shows
	// the claim bound or deleted.
	provisioned bool
	// ownership is the state of the competition for a claim without a selected node, until the informer
	// shows that it has one (N-5, N-10).
	ownership provision.Ownership
	// unblock ends the block of DeleteVolume for the handle that CreateVolume returned; nil for none.
	unblock func()
	// unsure says that the write of the PersistentVolume had no answer, so that the object may exist.
	unsure bool
}

func (m *memory) get(claim types.UID) known {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.claims[claim]
}

func (m *memory) edit(claim types.UID, edit func(*known)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.claims[claim]
	if edit(&k); !k.provisioned && k.ownership == (provision.Ownership{}) && k.unblock == nil {
		delete(m.claims, claim)
		return
	}
	if m.claims == nil {
		m.claims = map[types.UID]known{}
	}
	m.claims[claim] = k
}

func (m *memory) setProvisioned(claim types.UID) {
	m.edit(claim, func(k *known) { k.provisioned = true })
}

func (m *memory) setOwnership(claim types.UID, is provision.Ownership) {
	m.edit(claim, func(k *known) { k.ownership = is })
}

// watch removes what the informer shows to be over.
func (m *memory) watch() toolscache.ResourceEventHandler {
	return reconcile.InformerHandler(func(change reconcile.Change[*corev1.PersistentVolumeClaim]) {
		claim := change.Object()
		isOver := change.IsDeleted() || claim.Spec.VolumeName != ""
		if !isOver && claim.Annotations[names.AnnSelectedNode] == "" {
			return
		}
		m.edit(claim.UID, func(k *known) {
			k.ownership, k.provisioned = provision.Ownership{}, k.provisioned && !isOver
		})
	})
}

// onBoundOrDeleted calls tell for each claim that the informer shows bound or deleted.
func onBoundOrDeleted(tell func(types.UID)) toolscache.ResourceEventHandler {
	return reconcile.InformerHandler(func(change reconcile.Change[*corev1.PersistentVolumeClaim]) {
		if claim := change.Object(); change.IsDeleted() || claim.Spec.VolumeName != "" {
			tell(claim.UID)
		}
	})
}
