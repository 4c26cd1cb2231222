// Package verdict has the result type of all decisions: nothing to do, wait, refuse, or do
// these actions in this order. It also has the list of reasons. A reason connects a decision with
// its log line, its metric label, its event and its section in docs/reasons.md.
//
// It decides nothing itself and must not know any object of the Kubernetes API.
package verdict
