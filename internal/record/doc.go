// Package record writes and reads records: files with a line of JSON for each change of the objects
// that explanations read, and for each call that a role has made to its driver. docs/life.md has
// the schema.
//
// A record has no values of secrets: each object passes [inventory.Content], as it does for a dump.
// The package does not know what the changes mean.
package record
