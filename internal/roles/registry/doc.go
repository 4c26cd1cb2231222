// Package registry is the table of controllers. A role lists its controllers as rows, and a
// [Controller] says everything about one of them that a role must know: its name, the component of
// its events, the capability of the driver, its permissions, the API resources that it needs, the
// fields that it reads, and how it is built. The check of permissions, the transform of the cache,
// the flag --controllers and the manifests of deploy/rbac follow from the rows. Adding a controller
// to a role is adding a row.
//
// The package knows no flags and starts no process: package sidecar runs the rows.
package registry
