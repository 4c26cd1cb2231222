package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// A journal that cannot be read leaves the API server of `up` running: it says what to do, `explain`
// names the Lease, live and from a dump, and with the flag the claim gets its volume.
func TestUnreadableJournal(t *testing.T) {
	t.Parallel()
	cfg := stage.Config{DataDir: dataDir(t)}
	s := start(t, cfg)
	b := newTestNamespace(t, s)
	b.journal(t)
	const damaged = "v9:damaged"
	stop(t, s)

	b.Stage = start(t, cfg) // the first `up` has written its journal at the end
	lease := b.journal(t)
	lease.Annotations[names.AnnIntents] = damaged
	must(t, b.Client.Update(t.Context(), lease))
	b.Kill() // an orderly end would write the journal once more

	b.Stage = start(t, cfg)
	claim := b.claim(t, "waits", "")
	eventually(t, func(context.Context) error {
		for _, part := range []string{"lease " + lease.Namespace + "/" + lease.Name, intent.FlagSkipUnreadable, "The API server and the other roles stay up"} {
			if !strings.Contains(b.Output(), part) {
				return fmt.Errorf("%q is not in the output:\n%s", part, b.Output())
			}
		}
		return nil
	})
	system := testNamespace{b.Stage, lease.Namespace}
	system.awaitEvent(t, b.journal(t), "", corev1.EventTypeWarning, "JournalUnreadable", intent.FlagSkipUnreadable)
	eventually(t, func(ctx context.Context) error {
		return b.sameAnswer(ctx, filepath.Join(t.TempDir(), "dump.yaml"), "JournalUnreadable", "pvc/waits")
	})
	if got := b.journal(t).Annotations[names.AnnIntents]; got != damaged {
		t.Errorf("the journal was written: %q", got)
	}
	stop(t, b.Stage)

	cfg.Args = []string{intent.FlagSkipUnreadable}
	b.Stage = start(t, cfg)
	b.awaitBound(t, claim)
	if got := b.journal(t).Annotations[names.AnnIntentsUnreadable]; got != damaged {
		t.Errorf("kept aside: %q", got)
	}
	system = testNamespace{b.Stage, lease.Namespace}
	system.awaitEvent(t, b.journal(t), "", corev1.EventTypeWarning, "JournalSkipped", intent.SkipRisk)
}

// journal returns the Lease of the journal.
func (b testNamespace) journal(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	var found *coordinationv1.Lease
	eventually(t, func(ctx context.Context) error {
		var leases coordinationv1.LeaseList
		if err := b.Client.List(ctx, &leases, client.MatchingLabels{names.LabelManagedBy: names.ManagedByPurser}); err != nil {
			return err
		}
		for i := range leases.Items {
			if strings.HasPrefix(leases.Items[i].Name, names.JournalLeasePrefix) {
				found = &leases.Items[i]
				return nil
			}
		}
		return fmt.Errorf("no Lease of a journal among %d", len(leases.Items))
	})
	return found
}
