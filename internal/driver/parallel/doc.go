// Package parallel runs independent steps in parallel.
//
// It decides which of several errors counts: the one that would have ended the
// steps had they been taken one after the other, so a caller cannot tell the
// two apart. It must not know what the steps are.
package parallel
