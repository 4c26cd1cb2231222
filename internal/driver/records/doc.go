// Package records names the files with the state of a volume, and finds them when the driver
// starts.
//
// It decides which files of a folder are records, and removes the temporary files of a killed
// durable.WriteFile. It must not know the content of a record, nor the meaning of a damaged one:
// the reader of the record decides that.
package records
