package journal

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
)

// Others are the journals of the instances on other nodes.
type Others struct {
	Live      client.Reader // the API server
	Namespace string
	Prefix    string // of the names of their Leases, before the node
	Own       string // the name of this instance's Lease
	// SkipUnreadable leaves out journals that cannot be read.
	SkipUnreadable bool
}

// Entries returns the entries of the other journals, without the stale ones: the node of a journal
// that is not renewed may be gone for good, also if the journal cannot be read. Without the permission
// to list Leases there are none.
func (o Others) Entries(ctx context.Context, now time.Time) (all []intent.Entry, err error) {
	var leases coordinationv1.LeaseList
	ours := client.MatchingLabels{names.LabelManagedBy: names.ManagedByPurser}
	err = o.Live.List(ctx, &leases, client.InNamespace(o.Namespace), ours)
	if err != nil {
		if apierrors.IsForbidden(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("list the journals of other nodes: %w", err)
	}
	for i := range leases.Items {
		lease := &leases.Items[i]
		if !strings.HasPrefix(lease.Name, o.Prefix) || lease.Name == o.Own {
			continue
		}
		entries, err := intent.Decode(lease.Annotations[names.AnnIntents])
		if err != nil {
			if o.SkipUnreadable || isStale(lease, now) {
				continue
			}
			return nil, unreadable(lease, err)
		}
		if !isStale(lease, now) {
			all = append(all, entries...)
		}
	}
	return all, nil
}
