// Package deploy carries the manifests that Purser ships with, so that `purser up` and the tests
// run under the very same permissions as a cluster does.
//
// It must not know what is done with them.
package deploy

import "embed"

// RBAC holds one file per role, named after it.
//
//go:embed rbac/*.yaml
var RBAC embed.FS
