// Package populate decides the next step of a claim whose volume a populator fills: the finalizer, the
// prime claim (PVC') in the namespace of the populator, the pod that writes the data, the move of the
// PersistentVolume to the claim, and the removal of all that (VP-2 to VP-12).
//
// It knows the objects around one claim and no kind of source. It must not know what the pod does.
package populate
