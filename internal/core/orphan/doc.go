// Package orphan decides which volumes of the backend are orphaned: no object of the cluster names
// them.
//
// It only finds them. Nothing in Purser deletes a volume because it is an orphan: the storage may
// serve others too. The package must not know how volumes are listed.
package orphan
