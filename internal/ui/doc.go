// Package ui makes the pages of `purser ui` and the file of `purser report`: the board of what is
// stuck, the life of a volume on an axis of time, the map of nodes and pools, and numbers.
//
//  1. A [State] is what is shown: the objects of one time, and what is known of earlier times.
//  2. A page is computed from a State as plain data (board.go, life.go, map.go, numbers.go), and
//     written by the functions of the file of the same name that ends in _page.go.
//  3. [Server] serves the pages over HTTP, [Report] writes them into one file. Scripts and styles
//     are in static; nothing is loaded from elsewhere, and Content-Security-Policy forbids it.
//
// What is wrong with an object, and why, comes from the rules of explain and from life. The package
// does not know where a State comes from, and writes to no cluster.
package ui
