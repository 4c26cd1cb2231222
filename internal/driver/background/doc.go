// Package background runs work that goes on when its caller gives up, and hands
// the result to the caller who comes back for it.
//
// It decides who gets a result. A caller of the driver waits for a minute or
// so and then repeats the call: work that takes longer, and began anew each
// time, would never end. An error that no caller waited for is kept for the next
// caller, who would otherwise never see it; a success is not, since a caller that
// comes back finds what was made.
//
// It must not know what the work is.
package background
