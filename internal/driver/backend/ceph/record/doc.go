// Package record decides what is written beside a volume or snapshot in the
// cluster: the request that made it, so that a repeated request can be
// compared. It is the last thing that is written, so it also says that the
// volume is complete.
//
// A clone can carry the record of its source, so a record counts only when the
// name in it leads to the object that has it.
//
// It is pure and must not know how a record is stored.
package record
