package up

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/roles/process"
)

const (
	// aliveEvery is between two renewals of the Lease of `up`.
	aliveEvery = 30 * time.Second
	// aliveFor is its duration: one renewal may fail.
	aliveFor = 75 * time.Second
)

// showAlive renews the Lease of `up` until ctx ends. The roles of the process elect no leader, so that
// nothing else shows `explain` that they run. A renewal that fails is tried again with the next one.
func showAlive(ctx context.Context, writer client.Client, holder string) error {
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	for {
		if err := renewAlive(ctx, writer, holder, time.Now()); err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Info("cannot renew the lease", "problem", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func renewAlive(ctx context.Context, writer client.Client, holder string, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, aliveEvery/2)
	defer cancel()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: process.SystemNamespace, Name: names.LeaseUp},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: new(int32(aliveFor / time.Second)),
			RenewTime: &metav1.MicroTime{Time: now},
		},
	}
	err := writer.Patch(ctx, lease, client.MergeFrom(&coordinationv1.Lease{ObjectMeta: lease.ObjectMeta}))
	if apierrors.IsNotFound(err) {
		err = writer.Create(ctx, lease)
	}
	if err != nil {
		return fmt.Errorf("lease %s: %w", names.LeaseUp, err)
	}
	return nil
}
