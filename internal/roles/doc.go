// Package roles runs the role that the command line names. Each role is a folder below this one,
// and turns flags into a validated configuration and that into a running process. A role is a
// struct with three methods: AddFlags binds its settings, Validate lists every mistake at once, Run
// works until its context ends. Failures are errors that travel up to main; nothing here ends the
// process.
//
// # Packages
//
//   - cli: flags, help pages, mistakes, warnings about old flags, feature gates.
//   - process: access to the API server, leader election, HTTP, the manager, permissions, the cache
//     that roles share.
//   - registry: the list of controllers that `controllers`, `plane` and `up` run.
//   - sidecar: connection to one CSI driver and all that sidecar roles have in common.
//
// # How to add a role
//
//  1. Make a folder with the package of the role, and in it a struct that embeds [sidecar.Config]
//     (beside a CSI driver) or
//
// [process.APIAccess], [process.HTTPSettings] and [process.Election].
//  2. Write AddFlags with upstream's names and defaults, Validate, and Run, which calls
//     [sidecar.Run] with an Add function that
//
// builds the controllers from the parts that it gets.
// 3. Write Command(cli.Program) and add one line to the list in newRoot.
// 4. Put its permissions into deploy/rbac/ROLE.yaml, and run `make generate` for the reference.
//
// A controller is added to the existing roles with one entry in package registry or, beside a
// driver, in the Add function of the role.
package roles
