package node

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/internal/roles/process"
)

// wideGrant is a permission that the agent needs for some volumes in some namespaces, and that gives
// the holder of its token the whole cluster if it holds for all of them.
type wideGrant struct {
	process.Permission
	effect, advice string
}

var wideGrants = []wideGrant{
	{
		process.Permission{Group: "*", Resource: "*", Verb: "*"},
		"a process that reads the token on this node is administrator of the cluster",
		"use an account with the role of deploy/rbac/node.yaml",
	},
	{
		process.Permission{Resource: "secrets", Verb: "get"},
		"a process that reads the token on this node reads the secrets of all namespaces",
		"grant it only in the namespaces of secrets that volumes name for the node: deploy/optional/node-secrets.yaml",
	},
	{
		process.Permission{Resource: "serviceaccounts/token", Verb: "create"},
		"a process that reads the token on this node acts as any service account of the cluster",
		"without a CSIDriver with tokenRequests it is not needed; else grant it only in the namespaces of such pods",
	},
}

// warnOfWideGrants says what the agent's account may do beyond what a node needs. It changes nothing:
// what an account may do is the administrator's choice.
func warnOfWideGrants(ctx context.Context, api *rest.Config) {
	log := logr.FromContextOrDiscard(ctx)
	wanted := make([]process.Permission, 0, len(wideGrants))
	for _, g := range wideGrants {
		wanted = append(wanted, g.Permission)
	}
	missing, err := process.MissingPermissions(ctx, api, wanted)
	if err != nil {
		if ctx.Err() == nil {
			log.V(2).Info("cannot check the permissions", "problem", err.Error())
		}
		return
	}
	for _, g := range granted(missing) {
		log.Info("wide permission: "+g.String()+" in all namespaces", "effect", g.effect, "advice", g.advice)
	}
}

// granted returns the wide grants that are not missing. The first is all of the others too.
func granted(missing []process.Permission) []wideGrant {
	lacks := map[process.Permission]bool{}
	for _, p := range missing {
		lacks[p] = true
	}
	if !lacks[wideGrants[0].Permission] {
		return wideGrants[:1]
	}
	var all []wideGrant
	for _, g := range wideGrants {
		if !lacks[g.Permission] {
			all = append(all, g)
		}
	}
	return all
}
