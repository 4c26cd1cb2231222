// Package volumelock decides whether a call to the driver about a volume may begin: not while another one is under way in this process. "The
// CO SHOULD ensure that there are no other calls in-flight for the volume" (CSI, "Concurrency").
//
// The controllers see to that by what they know of the world. This is for when they know it from memories of different ages, so that one
// creates what another deletes. It never waits: the answer is the one that a driver gives, ABORTED, and the call is tried again.
//
// A driver may also answer two requests with one volume. What it answered with counts as under way until the PersistentVolume is written, so
// that nobody deletes it in between.
//
// It must not know what calls do.
package volumelock
