package explain

import (
	"cmp"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// isJournal reports whether a Lease has the journal of the driver's provisioner, or of its instance
// on the node; an empty node stands for all.
func isJournal(lease *coordinationv1.Lease, driver, node string) bool {
	rest, ok := strings.CutPrefix(strings.ToLower(lease.Name), names.JournalLeasePrefix+leaseName(driver))
	if !ok || rest == "" {
		return ok
	}
	of := lease.Annotations[names.AnnIntentsNode]
	return of != "" && rest == "-"+strings.ToLower(of) && of == cmp.Or(node, of)
}

// journalUnreadable returns the finding about a journal that cannot be read, without which the
// provisioner of the driver does not start; nil if there is none.
func (c *Cluster) journalUnreadable(driver, node string, f Finding) *Finding {
	for _, lease := range c.Leases {
		problem := intent.Check(lease.Annotations)
		if problem == nil || !isJournal(lease, driver, node) {
			continue
		}
		ref := Ref{Lease, lease.Namespace, lease.Name}
		f = f.about(ref).waits(verdict.JournalUnreadable, Administrator,
			"%s, which does not start: it cannot read its journal of volume requests", provisioner(driver).name)
		f.Evidence = []Evidence{{
			ref, "metadata.annotations[" + names.AnnIntents + "]",
			fmt.Sprintf("%d bytes: %v", len(lease.Annotations[names.AnnIntents]), problem),
			"a text that this version of Purser reads",
		}}
		f.Fix = []Step{
			{
				Text:    "If a newer version of Purser wrote it, run that version again; see the Lease",
				Command: shell.Command("kubectl -n %s get lease %s -o yaml", lease.Namespace, lease.Name),
			},
			{
				Text: fmt.Sprintf("Else start the provisioner with %s: it goes on without the requests and keeps the "+
					"text in the annotation %s",
					intent.FlagSkipUnreadable, names.AnnIntentsUnreadable),
				Risk: intent.SkipRisk,
			},
		}
		return &f
	}
	return nil
}
