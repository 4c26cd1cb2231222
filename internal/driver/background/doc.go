// Package background runs work that goes on after its caller was cancelled, and returns
// the result to the retried call.
//
// It decides which caller gets a result. A caller of the driver waits for about a minute and then
// retries the call. Work that takes longer, and started again with each retry, would never end. An
// error without a waiting caller is kept for the next one, which would never see it otherwise. A
// success is not kept, since the retry finds the object.
//
// It must not know what the work is.
package background
