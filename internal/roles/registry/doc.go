// Package registry lists the controllers that the roles `controllers`, `plane` and `up` run. An
// entry says everything about one controller that a role must know: its names, the component of its
// events, its permissions, the API resources that it needs, the fields that it reads, and how it is
// built. The flag --controllers, the manifest of the role, the check of permissions and the trim of
// the cache are all derived from the entries. Adding a controller is adding an entry to [All].
//
// The package knows no flags and starts no process.
package registry
