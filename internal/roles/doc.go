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
//   - registry: the row of a controller, and what follows from the rows.
//   - sidecar: runs a role with a table of controllers, beside one CSI driver or without one.
//
// # How to add a role
//
//  1. Make a folder with the package of the role, and in it a struct that embeds [sidecar.Config].
//  2. Write AddFlags with upstream's names and defaults, Validate, a table of controllers, and Run,
//     which calls [sidecar.Run] with the table.
//  3. Write Command(cli.Program) and add one line to the list in newRoot.
//  4. Add the role to the list in table_test.go, and run `make generate`, which writes deploy/rbac/ROLE.yaml.
//
// A controller is added to an existing role with one row in its table.
package roles
