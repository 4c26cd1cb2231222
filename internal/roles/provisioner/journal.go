package provisioner

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/journal"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	provisioning "github.com/purser-csi/purser/internal/provision"
	"github.com/purser-csi/purser/internal/roles/process"
	source "github.com/purser-csi/purser/internal/sources/rules"
	"github.com/purser-csi/purser/internal/telemetry"
)

// The values of --intents.
const (
	intentsRequire    = "require"
	intentsBestEffort = "best-effort"
	// IntentsOff has no journal.
	IntentsOff = "off"
)

// validateIntents checks --intents.
func (p *Provisioner) validateIntents() error {
	switch p.Journal.Intents {
	case intentsRequire, intentsBestEffort, IntentsOff:
		return nil
	}
	return fmt.Errorf(
		"--intents=%q: not known; use %s, %s or %s",
		p.Journal.Intents,
		intentsRequire,
		intentsBestEffort,
		IntentsOff,
	)
}

// counted is a journal with a count of its entries.
type counted interface {
	provisioning.Journal
	Len() int
}

// journalName returns the name of the Lease with the journal. With one instance per node, the name
// of the node follows it.
func (w *builder) journalName() string {
	return names.JournalLeasePrefix + process.DriverLeaseName(w.Driver.Name)
}

// requestsElsewhere returns the unresolved requests with a source of instances on other nodes.
func (w *builder) requestsElsewhere(ctx context.Context) ([]source.Request, error) {
	others := journal.Others{
		Live: w.Manager.GetAPIReader(), Namespace: w.role.Election.LeaseNamespace(),
		Prefix: w.journalName() + "-", Own: w.role.PlaceName(w.journalName()),
		SkipUnreadable: w.role.Journal.SkipUnreadable,
	}
	entries, err := others.Entries(ctx, time.Now())
	return provisioning.SourcesOf(entries), err
}

// openJournal returns the journal of unresolved requests, and adds it to the manager if it needs to
// run. An instance that creates no volumes has none. Every CreateVolume waits for a journal write,
// so the journal has its own connection and does not wait behind other writes.
func (w *builder) openJournal() (counted, error) {
	if w.role.Journal.Intents == IntentsOff || !w.createsVolumes() {
		return provisioning.NewMemory(), nil
	}
	need := journal.BestEffort
	if w.role.Journal.Intents == intentsRequire {
		need = journal.Required
	}
	dedicated := kube.DedicatedTransport(w.API)
	dedicated.Timeout = w.role.longestCall()
	api, err := client.New(dedicated, client.Options{Scheme: w.Manager.GetScheme(), Mapper: w.Manager.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("journal of volume requests: %w", err)
	}
	j := journal.New(journal.Config{
		Live: api, Writer: api,
		Namespace: w.role.Election.LeaseNamespace(), Name: w.role.PlaceName(w.journalName()),
		Holder: w.role.Election.Identity(), Node: w.role.nodeOptions().Name,
		CallTimeout: w.role.longestCall(), Needed: need, PreviousCallsEnded: w.role.Journal.PreviousEnded,
		ClaimExists: provisioning.ClaimExists(api), SkipUnreadable: w.role.Journal.SkipUnreadable, Events: w.Events,
	})
	if err := w.Manager.Add(j); err != nil {
		return nil, fmt.Errorf("journal of volume requests: %w", err)
	}
	telemetry.NewJournalBytes(w.Registry, j.Size)
	return j, nil
}
