package handoff

import (
	"context"
	"sync"

	storagev1 "k8s.io/api/storage/v1"
)

// AttachmentWrite is what was done to a VolumeAttachment.
type AttachmentWrite int

const (
	// AttachmentWritten is a create or an update; the object is the answer to it.
	AttachmentWritten AttachmentWrite = iota
	// AttachmentDeleted is a deletion; the finalizers of the object, if any, remain.
	AttachmentDeleted
	// AttachmentGone is the write that removed the last finalizer of a deleted object.
	AttachmentGone
)

// Attacher is the csi-attacher of a driver, as the attach-detach controller sees it.
type Attacher interface {
	// Takes reports whether the attacher of the driver is at work in this process.
	Takes(driver string) bool
	// Prepare puts onto a VolumeAttachment that is about to be created what the attacher needs for
	// the detach, so that it does not write it later.
	Prepare(ctx context.Context, va *storagev1.VolumeAttachment) error
	// Tell tells the attacher of a write.
	Tell(va *storagev1.VolumeAttachment, what AttachmentWrite)
}

// Attachments connects the attach-detach controller and the attachers of one process: each is told
// of the other's writes when they are answered, and not only when the watch shows them. Nothing
// depends on it. It is safe for concurrent use.
type Attachments struct {
	mu         sync.Mutex
	attachers  []Attacher
	controller func(va *storagev1.VolumeAttachment, what AttachmentWrite)
}

// NewAttachments returns a connection without ends.
func NewAttachments() *Attachments { return &Attachments{} }

// AddAttacher registers an attacher.
func (a *Attachments) AddAttacher(one Attacher) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.attachers = append(a.attachers, one)
}

// SetController registers the attach-detach controller.
func (a *Attachments) SetController(tell func(va *storagev1.VolumeAttachment, what AttachmentWrite)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.controller = tell
}

// attacher returns the attacher of a driver; nil if it is not at work in this process.
func (a *Attachments) attacher(driver string) Attacher {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.attachers {
		if one.Takes(driver) {
			return one
		}
	}
	return nil
}

// Prepare is [Attacher.Prepare] of the VolumeAttachment's driver, if its attacher is there.
func (a *Attachments) Prepare(ctx context.Context, va *storagev1.VolumeAttachment) error {
	if one := a.attacher(va.Spec.Attacher); one != nil {
		return one.Prepare(ctx, va)
	}
	return nil
}

// TellAttacher tells the attacher of the VolumeAttachment's driver, if it is there.
func (a *Attachments) TellAttacher(va *storagev1.VolumeAttachment, what AttachmentWrite) {
	if one := a.attacher(va.Spec.Attacher); one != nil {
		one.Tell(va, what)
	}
}

// TellController tells the attach-detach controller, if it is there.
func (a *Attachments) TellController(va *storagev1.VolumeAttachment, what AttachmentWrite) {
	if a == nil {
		return
	}
	a.mu.Lock()
	tell := a.controller
	a.mu.Unlock()
	if tell != nil {
		tell(va, what)
	}
}
