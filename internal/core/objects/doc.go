// Package objects answers small questions about API objects that several decisions ask.
//
// It must not know any decision.
package objects
