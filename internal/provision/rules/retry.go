package provision

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// editsMark separates the digest of [Inputs] from that of the claim's annotations and labels.
const editsMark = " edits "

// edits returns a digest of the claim's annotations and labels, for [Inputs].
func edits(claim *corev1.PersistentVolumeClaim) string {
	digest := sha256.Sum256(fmt.Append(nil, claim.Annotations, claim.Labels))
	return editsMark + hex.EncodeToString(digest[:])
}

// unchanged reports whether the next attempt would be like the last one. An edit of the claim's
// annotations or labels ends any backoff, as in upstream's queue (C-1, C-3). For a repeated request
// no other input matters. made is the request that the decision has built already; nil for none.
func unchanged(s Snapshot, made *draft) bool {
	if !isRepeated(s) {
		return s.Retry.Inputs == inputs(s, made)
	}
	_, before, known := strings.Cut(s.Retry.Inputs, editsMark)
	return s.Claim == nil || !known || editsMark+before == edits(s.Claim)
}
