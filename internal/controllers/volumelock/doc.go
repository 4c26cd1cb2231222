// Package volumelock decides whether a call to the driver about a volume may begin: not while
// another call for it is in flight in this process. "The CO SHOULD ensure that there are no other
// calls in-flight for the volume" (CSI, "Concurrency").
//
// The controllers order their calls by what their caches show. The lock is for caches of different
// ages, where one controller creates what another deletes. It never waits: the error is the one
// that a driver gives, ABORTED, and the call is tried again.
//
// A driver may also answer two requests with one volume. The returned handle stays locked against
// DeleteVolume until its PersistentVolume is written.
//
// It must not know what calls do.
package volumelock
