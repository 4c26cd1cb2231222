// Package protection decides when a claim, a volume or a VolumeAttributesClass that pods or claims
// deleted may really go: when its protecting finalizer is put on, and when nothing uses the object
// any more so that it comes off.
//
// It must not know how users are looked up, in memory or at the API server, nor how a finalizer is
// written.
package protection
