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

// Entry is what a role must know of a controller, besides how it is built. The controllers of each
// role embed it.
type Entry struct {
	Name      string
	Component string  // the source of its events, as upstream has it; empty for that of the role
	Grants    []Grant // what it may do, besides writing events
	// Needs is a kind that not every API server serves; empty for none. Without it the controller
	// does not run.
	Needs schema.GroupVersionKind
	// Absent is logged when an enabled controller does not run for lack of what it needs. It says
	// what does not work.
	Absent string
	// Fields are the fields that it reads; of kinds without any, those that [kube.Trim] keeps.
	Fields []*kube.Fields
}

// Described is an [Entry], or a struct that embeds one.
type Described interface{ entry() Entry }

func (e Entry) entry() Entry { return e }

// Controller is a controller of kube-controller-manager, by its name there.
type Controller struct {
	Entry

	Alias string // its name in older versions, which kube-controller-manager accepts too; may be empty
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
