// Package sidecars compares the memory of `purser sidecars`, in its two halves, with that of upstream's
// sidecars together: without volumes, and beside many bound claims and volumes, when the caches are filled
// and no work is left.
package sidecars
