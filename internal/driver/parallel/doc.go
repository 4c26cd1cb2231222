// Package parallel takes steps that do not need each other side by side.
//
// It decides which of several errors counts: the one that would have ended the
// steps had they been taken one after the other, so a caller cannot tell the
// two apart. It must not know what the steps are.
package parallel
