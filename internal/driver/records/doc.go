// Package records keeps the state of volumes on disk: what is staged, published and attached, and the zone
// of each volume.
//
// It names the files, finds them when the driver starts, and removes the temporary files of a killed
// durable.WriteFile. A record that cannot be read blocks its own volume only: "not published" could
// delete a volume under a running pod. It must not know how a volume is made or mounted.
package records
