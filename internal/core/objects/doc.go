// Package objects has small functions on API objects that several packages of core need. It does
// not know any decision.
package objects
