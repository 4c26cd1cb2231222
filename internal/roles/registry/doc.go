// Package registry describes controllers to the roles that run them. An [Entry] says everything
// about one controller that a role must know: its name, the component of its events, its permissions,
// the API resources that it needs, and the fields that it reads. The manifest of a role, the check of
// permissions and the trim of the cache are derived from the entries.
//
// [All] lists the controllers of the roles `controllers`, `plane` and `up`, with their names for the
// flag --controllers and how they are built. The controllers of csi-provisioner are entries in the
// package of that role, which `plane` and `up` run too. Adding a controller is adding an entry.
//
// The package knows no flags and starts no process.
package registry
