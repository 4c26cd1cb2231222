// Package record watches an API server and remembers everything that happens to the objects of the
// scenarios, in the order of the resource versions; from that it tells when a scenario has become
// quiet.
//
// It must not know what the scenarios are about.
package record
