package decisions

import (
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	capacities "github.com/purser-csi/purser/internal/capacity"
	capacity "github.com/purser-csi/purser/internal/capacity/rules"
	"github.com/purser-csi/purser/internal/names"
)

// capacities notes what the provisioner decides about each capacity that it plans or finds published.
func (r run) capacities(all []client.Object) {
	rules := capacity.Rules{Driver: r.driver, ManagedBy: names.CapacityManager("")}
	in, err := capacities.GatherPlan(r.ctx, r.from.Cached, true)
	if err != nil {
		r.found["plan of capacities"] = "error: " + err.Error()
		return
	}
	plan := capacity.NewPlan(in.Classes, capacity.Segments(in.Nodes, in.CSINodes, r.driver), rules)
	keys := map[capacity.Key]bool{}
	for key := range plan.Keys {
		keys[key] = true
	}
	for _, o := range all {
		if published, is := o.(*storagev1.CSIStorageCapacity); is {
			key, _ := capacity.KeyOf(published)
			keys[key] = plan.Keys[key]
		}
	}
	for key, planned := range keys {
		s, err := capacities.Gather(r.ctx, r.from.Cached, r.from.Sidecars, key, capacities.Memory{
			Rules: rules, IsPlanned: planned,
		})
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: key.Class}}
		note(r, "capacity in "+key.Segment.String()+" of class", class, capacity.Decide(s), err)
	}
}
