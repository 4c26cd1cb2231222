// Package mounting decides what a node does next about a volume that pods on it use: wait, stage,
// publish, republish, expand, unpublish, unstage or clean up; where everything stands on disk; and
// when a pod may go (volume-controllers, section 5).
//
// It must not know how a mount is made, how a driver is called or what is on disk now: the record
// of that is an input.
package mounting
