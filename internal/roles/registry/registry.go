package registry

import (
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	toolscache "k8s.io/client-go/tools/cache"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/roles/process"
)

// Controller is one row: a controller of a role, for the driver and the flags of that role.
type Controller struct {
	Name      string
	Alias     string // its name in older versions of kube-controller-manager; may be empty
	Component string // the source of its events, as upstream has it; empty for that of the role
	// Off is set if the flags leave the controller out.
	Off  bool
	When string // says which flags or drivers have the controller run, in the manifest; empty for all
	// Capability is what the driver must have; UNKNOWN for nothing.
	Capability csi.ControllerServiceCapability_RPC_Type
	// Unable is set if the driver lacks something that no capability says.
	Unable bool
	// Needs are kinds that not every API server serves. Without them the controller does not run.
	Needs []schema.GroupVersionKind
	// Late has the controller start once the API server serves the kinds, which may be long after
	// the start of the process.
	Late bool
	// Absent is logged when the controller does not run for lack of what it needs, or waits for it. It
	// says what does not work. It is empty if that is as expected.
	Absent string
	Grants []Grant // what it may do, besides writing events
	// Fields are the fields that it reads; of kinds without any, those that [kube.Trim] keeps.
	Fields []*kube.Fields
	// Add builds the controller and adds it to the manager.
	Add func(context.Context, reconcile.Settings) error
}

// Grant is one rule of a role.
type Grant struct {
	Group    string
	Resource string
	Verbs    []string
	// Namespace is the namespace of the objects; empty for all of them.
	Namespace string
	// Manifest gives the permission, if the manifest of the role does not.
	Manifest string
	// Unneeded is set if this driver or these flags do without.
	Unneeded bool
	When     string // says which drivers or flags need it, in the manifest; empty for all
}

// The verbs of most grants. Each write is a patch of the fields that it is about.
var (
	Read  = []string{"get", "list", "watch"}
	Write = []string{"patch"}
)

// Events are written by all controllers but those of csi-attacher.
var Events = Allow("", "events", "create", "patch")

// Allow returns a grant for all namespaces.
func Allow(group, resource string, verbs ...string) Grant {
	return Grant{Group: group, Resource: resource, Verbs: verbs}
}

// In returns the grant for one namespace.
func (g Grant) In(namespace string) Grant { g.Namespace = namespace; return g }

// By returns the grant with the manifest that gives it.
func (g Grant) By(manifest string) Grant { g.Manifest = manifest; return g }

// If returns the grant, which is unneeded unless ok. when says in words what ok is.
func (g Grant) If(ok bool, when string) Grant { g.Unneeded, g.When = !ok, when; return g }

// Running returns the rows of the controllers that run for a driver with these capabilities.
func Running(rows []Controller, has map[csi.ControllerServiceCapability_RPC_Type]bool) []Controller {
	return slices.DeleteFunc(slices.Clone(rows), func(c Controller) bool { return c.Off || c.Lacks(has) })
}

// Lacks reports whether a driver with these capabilities lacks what the controller needs.
func (c Controller) Lacks(has map[csi.ControllerServiceCapability_RPC_Type]bool) bool {
	return c.Unable || c.Capability != csi.ControllerServiceCapability_RPC_UNKNOWN && !has[c.Capability]
}

// Permissions returns the permissions that the grants give, without duplicates.
func Permissions(grants []Grant) []process.Permission {
	var all []process.Permission
	for _, g := range grants {
		for _, verb := range g.Verbs {
			p := process.Permission{Namespace: g.Namespace, Group: g.Group, Resource: g.Resource, Verb: verb}
			if !g.Unneeded && !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	return all
}

// Grants returns the grants of the rows.
func Grants(rows []Controller) (all []Grant) {
	for _, c := range rows {
		all = append(all, c.Grants...)
	}
	return all
}

// Fields returns the fields that the controllers read.
func Fields(rows []Controller) (all []*kube.Fields) {
	for _, c := range rows {
		all = append(all, c.Fields...)
	}
	return all
}

// Trim returns a cache transform that keeps only the fields that the controllers read, and those that
// other roles in the same process read.
func Trim(rows []Controller, others ...*kube.Fields) toolscache.TransformFunc {
	return kube.TrimTo(append(Fields(rows), others...))
}
