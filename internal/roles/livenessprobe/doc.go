// Package livenessprobe is the role livenessprobe: the drop-in for upstream's program of this name.
//
// It turns flags into a prober (internal/livenessprobe) and the HTTP servers that ask it. It must not
// know how a driver is checked.
package livenessprobe
