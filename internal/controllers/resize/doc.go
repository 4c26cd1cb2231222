// Package resize expands the volumes of claims through one CSI driver: the effects around
// core/resizing.
//
// It must not decide which size is asked for, nor what an answer means.
package resize
