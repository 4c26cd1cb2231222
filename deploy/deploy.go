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

// Policy holds the ValidatingAdmissionPolicies.
//
//go:embed policy/*.yaml
var Policy embed.FS

// Grants lets csi-provisioner read ReferenceGrants.
//
//go:embed optional/csi-provisioner-grants.yaml
var Grants []byte

// ReferenceGrants is the CustomResourceDefinition for clusters without Gateway API.
//
//go:embed development/referencegrants.yaml
var ReferenceGrants []byte

// DevelopmentSecrets lets the roles of a development cluster read all secrets.
//
//go:embed development/secrets.yaml
var DevelopmentSecrets []byte
