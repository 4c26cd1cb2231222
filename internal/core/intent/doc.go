// Package intent says what must be remembered of a CreateVolume call while its outcome is not known, so that no volume is
// ever lost: a call that may have created something is repeated until the driver gives a final answer, even when the claim
// is gone by then (external-provisioner.md C-33, C-90, H-6, H-47).
//
// It must not know where records are kept; controllers/provision keeps them.
package intent
