package registry

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/purser-csi/purser/internal/controllers/handoff"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
)

// Controller is one entry of the registry.
type Controller struct {
	Name      string  // as kube-controller-manager has it
	Alias     string  // its name in older versions, which kube-controller-manager accepts too; may be empty
	Component string  // the source of its events, as upstream has it
	Grants    []Grant // what it may do, besides writing events
	// Needs is a kind that not every API server serves; empty for none. Without it the controller
	// does not run, and Absent is logged, which says what does not work.
	Needs  schema.GroupVersionKind
	Absent string
	// Fields are the fields that it reads; of kinds without any, those that [kube.Trim] keeps.
	Fields []*kube.Fields
	// Add builds the controller and adds it to the manager.
	Add func(context.Context, Parts, reconcile.Recorder) error
}

// Grant is one rule of a role.
type Grant struct {
	Group    string
	Resource string
	Verbs    []string
}

// Parts are what controllers are built from.
type Parts struct {
	Manager manager.Manager
	Metrics prometheus.Registerer
	Queue   *handoff.Queue // to the provisioner in the same process; nil for none
	// ClaimProtection is set if that controller runs in the same process, which also keeps the
	// condition Unused of claims.
	ClaimProtection bool
	// Attachments connects with the attachers in the same process; nil for none.
	Attachments *handoff.Attachments
	// ForceDetachAfter is how long an unhealthy node may report an unwanted volume in use; 0 for
	// ever.
	ForceDetachAfter time.Duration
	Settings         func(reconcile.Recorder) reconcile.Settings
}

// Names returns the names of all controllers, sorted.
func Names() []string {
	var all []string
	for _, c := range All() {
		all = append(all, c.Name)
	}
	slices.Sort(all)
	return all
}

// CurrentName returns the name of a controller that is given by its name or by an older one; an
// unknown name stays as it is.
func CurrentName(name string) string {
	for _, c := range All() {
		if c.Alias == name {
			return c.Name
		}
	}
	return name
}
