package reclaim

import (
	"context"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
)

// leases returns the journals of nodes that the cache does not have. A journal with unresolved
// requests, or with a text that cannot be read, stays if the driver may have volumes for them.
func (r *Reaper) leases(ctx context.Context, nodes reclaim.Nodes) (map[types.UID]*coordinationv1.Lease, error) {
	var list coordinationv1.LeaseList
	ours := client.MatchingLabels{names.LabelManagedBy: names.ManagedByPurser}
	if err := r.Live.List(ctx, &list, client.InNamespace(r.Namespace), ours); err != nil {
		return nil, fmt.Errorf("journals: %w", err)
	}
	found := map[types.UID]*coordinationv1.Lease{}
	for i := range list.Items {
		lease := &list.Items[i]
		node := lease.Annotations[names.AnnIntentsNode]
		if _, exists := nodes[node]; node == "" || exists || !strings.HasPrefix(lease.Name, r.Prefix) {
			continue
		}
		entries, err := intent.Decode(lease.Annotations[names.AnnIntents])
		isKept := lease.Annotations[names.AnnIntentsUnreadable] != ""
		if r.CSI == nil || err == nil && len(entries) == 0 && !isKept {
			found[lease.UID] = lease
		}
	}
	return found, nil
}

// deleteLease deletes the journal of a node that does not exist by a live read.
func (r *Reaper) deleteLease(ctx context.Context, lease *coordinationv1.Lease) error {
	node, err := r.nodeAt(ctx, reclaim.Place{
		Key:   reclaim.FieldNodeName,
		Value: lease.Annotations[names.AnnIntentsNode],
	})
	if err != nil || node != "" {
		return err
	}
	err = r.Writer.Delete(ctx, lease, client.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the journal of a removed node, lease %s: %w", lease.Name, err)
	}
	return nil
}
