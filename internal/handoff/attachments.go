package handoff

import (
	"context"
	"sync"

	storagev1 "k8s.io/api/storage/v1"
)

// AttachmentWrite is the kind of a write to a VolumeAttachment.
type AttachmentWrite int

const (
	// AttachmentWritten is a create or an update; the object is the answer to it.
	AttachmentWritten AttachmentWrite = iota
	// AttachmentDeleted is a deletion; the finalizers of the object, if any, remain.
	AttachmentDeleted
)

// Attacher is the csi-attacher of a driver, as the attach-detach controller sees it.
type Attacher interface {
	// Takes reports whether the attacher of the driver runs in this process.
	Takes(driver string) bool
	// Prepare adds to a VolumeAttachment that is about to be created what the attacher needs for
	// the detach, which saves a later write.
	Prepare(ctx context.Context, va *storagev1.VolumeAttachment) error
	// Tell reports a write to the attacher.
	Tell(va *storagev1.VolumeAttachment, what AttachmentWrite)
}

// Attachments connects the attach-detach controller and the attachers of one process. Each gets the
// other's writes with the response of the API server, earlier than by the watch. It is only an
// optimisation. It is safe for concurrent use.
type Attachments struct {
	mu         sync.Mutex
	attachers  []Attacher
	controller func(va *storagev1.VolumeAttachment)
}

// NewAttachments returns a connection without attachers and without a controller.
func NewAttachments() *Attachments { return &Attachments{} }

// AddAttacher registers an attacher.
func (a *Attachments) AddAttacher(one Attacher) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.attachers = append(a.attachers, one)
}

// SetController registers the attach-detach controller.
func (a *Attachments) SetController(tell func(va *storagev1.VolumeAttachment)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.controller = tell
}

// attacher returns the attacher of a driver; nil if it does not run in this process.
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

// Prepare calls [Attacher.Prepare] of the VolumeAttachment's driver, if its attacher is registered.
func (a *Attachments) Prepare(ctx context.Context, va *storagev1.VolumeAttachment) error {
	if one := a.attacher(va.Spec.Attacher); one != nil {
		return one.Prepare(ctx, va)
	}
	return nil
}

// TellAttacher reports a write to the attacher of the VolumeAttachment's driver, if it is
// registered.
func (a *Attachments) TellAttacher(va *storagev1.VolumeAttachment, what AttachmentWrite) {
	if one := a.attacher(va.Spec.Attacher); one != nil {
		one.Tell(va, what)
	}
}

// TellController reports the answer to a write to the attach-detach controller, if it is registered.
func (a *Attachments) TellController(va *storagev1.VolumeAttachment) {
	if a == nil {
		return
	}
	a.mu.Lock()
	tell := a.controller
	a.mu.Unlock()
	if tell != nil {
		tell(va)
	}
}
