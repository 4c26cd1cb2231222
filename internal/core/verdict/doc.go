// Package verdict is the form of every answer that core gives: nothing to do, wait, refuse, or do
// these actions in this order. It also holds the list of reasons, because a reason is what ties an
// answer to its log line, its metric label, its event and its page in docs/reasons.
//
// It decides nothing itself and must not know any object of the Kubernetes API.
package verdict
