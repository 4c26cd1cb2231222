// Package records names the files that tell what was done with a volume, and finds them again when
// the driver starts.
//
// It decides which files of a folder are records, and that what a killed durable.WriteFile left is
// removed. It must not know what stands in a record, nor what a damaged one means: that is decided
// where the record is read.
package records
