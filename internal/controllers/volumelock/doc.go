// Package volumelock decides whether a call to the driver about a volume may begin: not while
// another call for it is in flight in this process. "The CO SHOULD ensure that there are no other
// calls in-flight for the volume" (CSI, "Concurrency").
//
// The controllers order their calls by their caches. The lock is for caches of different ages,
// where one controller creates what another deletes. It never waits: it returns the error that a
// driver would return, ABORTED, and the call is retried.
//
// A driver may answer two requests with one volume. The returned handle stays locked against
// DeleteVolume until its PersistentVolume is written.
//
// The package does not know what the calls do.
package volumelock
