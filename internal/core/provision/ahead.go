package provision

import "github.com/purser-csi/purser/internal/core/intent"

// Ahead is the request that a claim will want which names no provisioner yet, as far as can be told
// from the claim and its class alone: for a claim that waits for no pod, and will be asked for
// within moments unless there is a volume for it. False for none.
func Ahead(s Snapshot) (intent.Entry, bool) {
	if s.Claim == nil || Provisioner(s.Claim) != "" || s.Class == nil || bindsOnFirstUse(s.Class) {
		return intent.Entry{}, false
	}
	s.HandedOver = true // so that all checks but this one count
	if !isFreeToAsk(s) || NamespaceToRead(s) != "" {
		return intent.Entry{}, false
	}
	entry, finding := newEntry(s)
	return entry, finding == nil
}
