// Package provision decides what happens to a claim that wants a volume from one CSI driver:
// whether it is ours, what to ask of the driver, what the driver's answer means, and which
// PersistentVolume to write.
//
// [Decide] looks at the world and says what to do first. [AfterCreate], [AfterWrite] and
// [AfterDiscard] look at how an action ended and say what to do next. None of them does anything,
// and none must know of clients, caches or connections.
//
// The facts are in docs/rows.md sections 3, 5 and 6; their IDs stand beside the rules.
package provision
