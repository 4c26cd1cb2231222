// Package protection decides when a claim, a volume or a VolumeAttributesClass gets its protecting
// finalizer, and when a terminating one has no user any more, so that the finalizer is removed.
//
// It must not know how users are read, from the cache or live, nor how a finalizer is written.
package protection
