// Package intent defines the journal: which CreateVolume requests must be recorded before they are
// sent, and when they are resolved, so that no volume is leaked. A call that may have created a
// volume is repeated until the driver gives a final answer, even if the claim is deleted or the
// leader changes (C-33, C-90, C-91, H-1, H-6, H-47).
//
// An [Entry] is one request; a [Book] is the set of them, bounded by the size of its text.
// [Book.Take] encodes the text, and [Decode] reads it. internal/journal stores the text; this
// package does not know where.
package intent
