// Package resize measures how 200 claims that expand at once are served by purser csi-resizer and by
// upstream's csi-resizer without its limits of requests: requests by verb, CSI calls, conflicts, and
// expansions in a second.
package resize
