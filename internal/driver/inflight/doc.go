// Package inflight knows which operation runs on which object.
//
// It decides whether an operation may start now. It never waits: the CSI spec
// asks for ABORTED while another operation is pending ("Error Scheme"), so
// the caller gets an answer at once that says what is running and for how
// long. Users otherwise see nothing but "operation already exists" for as
// long as the first call hangs.
//
// It must not know what the operations do.
package inflight
