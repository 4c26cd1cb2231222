package roles

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/controllers/journal"
	provisioning "github.com/purser-csi/purser/internal/controllers/provision"
	"github.com/purser-csi/purser/internal/kube"
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

// journal is what remembers unsettled requests, registered with the manager where it needs to run. Every volume waits for it, so it does not
// wait in line behind the writes of those before.
func (w *wiring) journal() (counted, error) {
	if w.role.Intents == intentsOff {
		return provisioning.NewMemory(), nil
	}
	need := journal.BestEffort
	if w.role.Intents == intentsRequire {
		need = journal.Required
	}
	apart := kube.DedicatedTransport(w.api)
	apart.Timeout = w.role.longestCall()
	api, err := client.New(apart, client.Options{Scheme: w.mgr.GetScheme(), Mapper: w.mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("journal of volume requests: %w", err)
	}
	j := journal.New(journal.Config{
		Live: api, Writer: api,
		Namespace: w.role.Election.namespace(), Name: "purser-intents-" + leaseName(w.driver.Name), Holder: w.holder,
		CallTimeout: w.role.longestCall(), Needed: need, FormerEnded: w.role.FormerEnded,
	})
	if err := w.mgr.Add(j); err != nil {
		return nil, fmt.Errorf("journal of volume requests: %w", err)
	}
	return j, nil
}
