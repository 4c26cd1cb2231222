package roles

import (
	"fmt"

	"github.com/purser-csi/purser/internal/controllers/journal"
	provisioning "github.com/purser-csi/purser/internal/controllers/provision"
)

// The values of --intents.
const (
	intentsRequire    = "require"
	intentsBestEffort = "best-effort"
	intentsOff        = "off"
)

// validateIntents checks --intents.
func (p *Provisioner) validateIntents() error {
	switch p.Intents {
	case intentsRequire, intentsBestEffort, intentsOff:
		return nil
	}
	return fmt.Errorf("--intents=%q: not known; use %s, %s or %s", p.Intents, intentsRequire, intentsBestEffort, intentsOff)
}

// counted is a journal that knows how much it holds.
type counted interface {
	provisioning.Journal
	Len() int
}

// journal is what remembers unsettled requests, registered with the manager where it needs to run.
func (w *wiring) journal() (counted, error) {
	if w.role.Intents == intentsOff {
		return provisioning.NewMemory(), nil
	}
	need := journal.BestEffort
	if w.role.Intents == intentsRequire {
		need = journal.Required
	}
	j := journal.New(journal.Config{
		Live: w.mgr.GetAPIReader(), Writer: w.mgr.GetClient(),
		Namespace: w.role.Election.namespace(), Name: "purser-intents-" + leaseName(w.driver.Name), Holder: w.holder,
		CallTimeout: w.role.longestCall(), Needed: need, FormerEnded: w.role.FormerEnded,
	})
	if err := w.mgr.Add(j); err != nil {
		return nil, fmt.Errorf("journal of volume requests: %w", err)
	}
	return j, nil
}
