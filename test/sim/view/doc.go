// Package view is the cache of one process in the simulation: it follows the history of the API
// server as far as its schedule lets it, kind by kind, and calls the event handlers for each
// change, as the informers of a manager do.
//
// A view can lag, be frozen, relist after a broken watch, and start with an old list.
package view
