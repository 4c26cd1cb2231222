// Package resize compares csi-resizer with upstream's: expansions and modifications of volumes.
//
// It must not know how scenarios are played.
package resize
