package provision

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// editsMark begins the part of [Inputs] that is about what a user edits on the claim.
const editsMark = " edits "

// edits returns a digest of the claim's annotations and labels, for [Inputs].
func edits(claim *corev1.PersistentVolumeClaim) string {
	digest := sha256.Sum256(fmt.Append(nil, claim.Annotations, claim.Labels))
	return editsMark + hex.EncodeToString(digest[:])
}

// unchanged reports whether the next attempt would be as the last one. An edit of the claim, such
// as an annotation or a label, ends the delay of any retry, as upstream's queue does (C-1, C-3).
// For a recorded request no other input matters, since it is repeated unchanged.
func unchanged(s Snapshot) bool {
	if !isRepeated(s) {
		return s.Retry.Inputs == Inputs(s)
	}
	_, before, known := strings.Cut(s.Retry.Inputs, editsMark)
	return s.Claim == nil || !known || editsMark+before == edits(s.Claim)
}
