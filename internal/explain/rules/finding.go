package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// Actor is the party that has to act on a finding.
type Actor string

// The actors, in the words of the answer.
const (
	User          Actor = "user"
	Administrator Actor = "administrator"
	Vendor        Actor = "driver vendor"
	CloudOwner    Actor = "cloud account's owner"
	Itself        Actor = "none" // it goes on by itself
)

// Ref names one API object.
type Ref struct {
	Kind      Kind   `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String returns KIND/NAME as the command line takes it, followed by the namespace.
func (r Ref) String() string {
	if r.Namespace != "" {
		return r.Kind.Short() + "/" + r.Name + " -n " + r.Namespace
	}
	return r.Kind.Short() + "/" + r.Name
}

func (r Ref) key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

// Evidence is one field of one object that shows the cause. Wanted is its right value, if known.
type Evidence struct {
	Object Ref    `json:"object"`
	Field  string `json:"field"`
	Value  string `json:"value"`
	Wanted string `json:"wanted,omitempty"`
}

// Step is a remedy: a command that can be pasted, or a sentence, with its risk.
type Step struct {
	Text    string     `json:"text"`
	Command shell.Line `json:"command,omitempty"`
	Risk    string     `json:"risk,omitempty"`
}

// Finding is one thing that keeps an object from getting on.
type Finding struct {
	Reason   verdict.Reason `json:"reason"`
	Object   Ref            `json:"object"`
	WaitsFor string         `json:"waitsFor"`
	// Decision is the reason of the controller's decision that the finding comes from, which Reason
	// may narrow down; empty where another component decides.
	Decision verdict.Reason `json:"decision,omitempty"`
	// Words are those of that decision: in the event with the reason Event, or in the controller's
	// log.
	Words    string     `json:"words,omitempty"`
	Event    string     `json:"event,omitempty"`
	Cause    Ref        `json:"cause"` // the object that the finding is about; equal causes are grouped
	Evidence []Evidence `json:"evidence,omitempty"`
	Fix      []Step     `json:"fix,omitempty"`
	Actor    Actor      `json:"actor"`
	// Until is when it goes on by itself, if Actor is [Itself] and the time is known.
	Until *time.Time `json:"until,omitempty"`
	// Since is the time from which on the object waits, as far as the objects tell.
	Since *time.Time `json:"since,omitempty"`
	// Chain has each wait from Object to the cause, in this order, if there is more than one.
	Chain []Link `json:"chain,omitempty"`
}

// findingAbout returns a finding whose cause is the object itself. since is the time from which on
// it waits; nil if the objects do not tell.
func findingAbout(object Ref, since *time.Time) Finding {
	return Finding{Object: object, Cause: object, Since: since}
}

// about returns the finding with another cause than its object.
func (f Finding) about(cause Ref) Finding {
	f.Cause = cause
	return f
}

// waits says what the object of the finding waits for, why, and who has to act.
func (f Finding) waits(reason verdict.Reason, actor Actor, format string, args ...any) Finding {
	f.Reason, f.Actor, f.WaitsFor = reason, actor, fmt.Sprintf(format, args...)
	return f
}

// by notes the decision that the finding comes from. message is that of its event on the pods;
// empty where it emits the event of the reason, or none.
func (f Finding) by(decided verdict.Finding, message string) Finding {
	f.Decision, f.Words, f.Event = decided.Reason, decided.Text(), verdict.Describe(decided.Reason).Event
	if message != "" {
		f.Words, f.Event = message, string(attachment.Failed)
	}
	return f
}

// inWordsOf gives findings with the reason of a controller's decision the words of the decision,
// which package reconcile puts into its event and its log.
func inWordsOf(decided verdict.Finding, findings []Finding) []Finding {
	for i := range findings {
		if findings[i].Reason == decided.Reason {
			findings[i] = findings[i].by(decided, "")
		}
	}
	return findings
}

// State is the outcome of a report.
type State string

// The states of an object.
const (
	Well    State = "well"
	Stuck   State = "stuck"
	Unknown State = "unknown" // the object, or an input of the decision, is not in the dump
)

// Report is the answer about one object.
type Report struct {
	Object   Ref       `json:"object"`
	State    State     `json:"state"`
	Summary  string    `json:"summary"`            // one sentence: how it is
	Next     string    `json:"next,omitempty"`     // the next step, if nothing is wrong
	Findings []Finding `json:"findings,omitempty"` // in the order in which they bite
	// Refused is the last wish that the API server refused, about an object that is well.
	Refused *Finding `json:"refused,omitempty"`
	// Users are the objects that name a class, a driver or a secret, or depend on a lease.
	Users []Use `json:"users,omitempty"`
	// Unread are the kinds that the input lacks and the answer depends on.
	Unread []string `json:"unread,omitempty"`
}

// Use is an object that uses another one.
type Use struct {
	Object Ref `json:"object"`
	// Waits is what it waits for because of the other object; empty where it does not wait.
	Waits string `json:"waits,omitempty"`
}

// Group is one cause with all objects that wait for it.
type Group struct {
	Reason  verdict.Reason `json:"reason"`
	Cause   Ref            `json:"cause"`
	Finding Finding        `json:"finding"` // that of the oldest object
	Objects []Ref          `json:"objects"`
	Oldest  *time.Time     `json:"oldest,omitempty"`
	// Normal says that nothing is wrong: it goes on by itself in time, or a claim waits for its
	// first pod.
	Normal bool `json:"normal,omitempty"`
}

// GroupByCause puts reports with the same reason and the same cause together, those with a fix by a
// person first, then the oldest.
func GroupByCause(reports []Report) []Group {
	type key struct {
		reason verdict.Reason
		cause  Ref
	}
	at := map[key]int{}
	var groups []Group
	for _, report := range reports {
		if report.State != Stuck || len(report.Findings) == 0 {
			continue
		}
		first := report.Findings[0]
		k := key{first.Reason, first.Cause}
		i, ok := at[k]
		if !ok {
			i, at[k] = len(groups), len(groups)
			groups = append(groups, Group{
				Reason:  first.Reason,
				Cause:   first.Cause,
				Finding: first,
				Oldest:  first.Since,
			})
		}
		groups[i].Objects = append(groups[i].Objects, report.Object)
		if first.Since != nil && (groups[i].Oldest == nil || first.Since.Before(*groups[i].Oldest)) {
			groups[i].Oldest, groups[i].Finding = first.Since, first
		}
	}
	for i, g := range groups {
		groups[i].Normal = g.Finding.Actor == Itself || g.Reason == verdict.WaitForFirstConsumer
	}
	slices.SortStableFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(urgency(a), urgency(b)), compareTimes(a.Oldest, b.Oldest))
	})
	return groups
}

// urgency is lower for what no waiting mends.
func urgency(g Group) int {
	switch {
	case g.Normal:
		return 2
	case g.Reason == verdict.ClaimLost, g.Reason == verdict.ClaimMisbound, g.Reason == verdict.ClaimMarkedBound:
		return 0
	}
	return 1
}

func compareTimes(a, b *time.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return a.Compare(*b)
}
