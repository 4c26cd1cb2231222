package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

// capacitiesPublished waits for a CSIStorageCapacity of each zone, which the scheduler reads because the
// CSIDriver says so.
func (b testNamespace) capacitiesPublished(t *testing.T, zones ...string) {
	t.Helper()
	var drivers storagev1.CSIDriverList
	must(t, b.Client.List(t.Context(), &drivers))
	if len(drivers.Items) != 1 || drivers.Items[0].Spec.StorageCapacity == nil || !*drivers.Items[0].Spec.StorageCapacity {
		t.Fatalf("the CSIDriver does not say storageCapacity: true: %+v", drivers.Items)
	}
	eventually(t, func(ctx context.Context) error {
		var all storagev1.CSIStorageCapacityList
		if err := b.Client.List(ctx, &all); err != nil {
			return err
		}
		for _, zone := range zones {
			found := false
			for _, capacity := range all.Items {
				found = found || capacity.NodeTopology != nil && capacity.NodeTopology.MatchLabels[zoneLabel] == zone &&
					capacity.Capacity != nil && !capacity.Capacity.IsZero()
			}
			if !found {
				return fmt.Errorf("no capacity of zone %s is published: %+v", zone, all.Items)
			}
		}
		return nil
	})
}

// fullZoneIsExplained creates a pod that may run in the full zone a only: explain names the capacity.
func (b testNamespace) fullZoneIsExplained(t *testing.T) {
	t.Helper()
	pod := b.podFor(b.sized(t, "fourth", "70Mi"), "a")
	must(t, b.Client.Create(t.Context(), pod))
	eventually(t, func(ctx context.Context) error {
		out, _, err := b.purser(ctx, "explain", "pod/"+pod.Name, "-n", b.name, "-o", "json")
		if err == nil && !strings.Contains(out, `"reason": "`+string(verdict.CapacityMissing)+`"`) {
			err = fmt.Errorf("explain says %s", out)
		}
		return err
	})
}
