// Package view is the cache of one process in the simulation: it follows the history of the API
// server as far as its schedule lets it, kind by kind, and tells handlers of each step, as the
// informers of a manager do.
//
// A view can lag, stand still, skip what happened meanwhile (a watch that broke and lists again),
// and begin with an old list.
package view
