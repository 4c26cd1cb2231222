// Package intent says what must be on record before CreateVolume is called, and until when, so that
// no volume is ever lost: a call that may have created something is repeated until the driver gives
// a final answer, even when the claim is gone by then and even when the process is another one
// (docs/rows.md C-33, C-90, C-91, H-1, H-6, H-47).
//
// An [Entry] is one request, a [Book] the set of them, bounded by the size of its text. [Book.Take]
// gives the text, and [Decode] reads it. The package must not know where the text is kept;
// controllers/journal writes it.
package intent
