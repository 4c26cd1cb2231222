package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// A chain follows each wait to where it ends. A finding whose cause is another object that itself
// waits is replaced by the finding about that object, and so on:
//
//   - The cause is well, or is not in the input: the finding stays.
//   - The cause is stuck for the same reason: the finding has copied it already, and stays.
//   - The cause is an object that the chain has passed: the answer is the circle.
//   - Nothing is left to follow, and it should go on by itself, but has not for longer than that
//     takes, or the program that takes the step does not run: the administrator has to look at that.

// Link is one wait on the way from an object to the cause.
type Link struct {
	Object   Ref    `json:"object"`
	WaitsFor string `json:"waitsFor"`
}

// ordinary is how long a step that goes on by itself takes at most, where no better time is known.
const ordinary = 5 * time.Minute

// mostLinks bounds a chain. The longest that objects can form without a circle is shorter: pod,
// claim, snapshot, claim, pod, attachment, node, and an actor.
const mostLinks = 12

// followed are the reasons for which a finding that a person acts on is only that another object is
// not ready. Findings of [Itself] are followed without being listed.
var followed = map[verdict.Reason]bool{
	verdict.SourceNotReady:        true,
	verdict.SnapshotSourceMissing: true,
	verdict.ClaimStillUsed:        true,
	verdict.VolumeStillUsed:       true,
	verdict.ProvisionerSilent:     true,
	verdict.AttacherSilent:        true,
	verdict.ResizerSilent:         true,
	verdict.SnapshotterSilent:     true,
	verdict.BinderSilent:          true,
	verdict.ProtectionSilent:      true,
	verdict.SchedulerSilent:       true,
	verdict.WorkloadNotReady:      true,
	verdict.DriverNotRegistered:   true,
	verdict.NodePluginAbsent:      true,
	verdict.DriverSlow:            true,
	verdict.AttachUnderWay:        true,
	verdict.WebhookUnreachable:    true,
	verdict.GroupMemberNotReady:   true,
}

// toTheRoot follows the findings of a report. A cause that several of them end in is given once.
func (c *Cluster) toTheRoot(report Report) Report {
	var roots []Finding
	for _, f := range report.Findings {
		root := c.follow(f)
		if !slices.ContainsFunc(roots, func(r Finding) bool { return isSameCause(r, root) || isFailureOf(root, r) }) {
			roots = append(roots, root)
		}
	}
	report.Findings = roots
	return c.withSameHandle(report)
}

func isSameCause(a, b Finding) bool {
	return a.Reason == b.Reason && a.Cause == b.Cause && a.WaitsFor == b.WaitsFor
}

// isFailureOf reports whether a finding is only that an attempt failed for what another finding
// follows to its end.
func isFailureOf(failed, other Finding) bool {
	chain := linksOf(failed)
	return slices.Contains(createReasons, failed.Reason) && len(other.Chain) > len(chain) &&
		slices.EqualFunc(chain, other.Chain[:len(chain)], func(a, b Link) bool { return a.Object == b.Object })
}

// follow returns the finding at the end of the chain that begins with a finding, as one about the
// object of the first.
func (c *Cluster) follow(first Finding) Finding {
	root, chain := first, linksOf(first)
	for len(chain) < mostLinks && (root.Actor == Itself || followed[root.Reason]) {
		next := root.Cause
		if next == chain[len(chain)-1].Object {
			break
		}
		if slices.ContainsFunc(chain, func(l Link) bool { return l.Object == next }) {
			return c.circle(first, chain, next)
		}
		report := c.explain(next)
		if report.State != Stuck || report.Findings[0].Reason == root.Reason {
			break
		}
		root = report.Findings[0]
		chain = append(chain, linksOf(root)...)
	}
	root = c.overdue(root)
	if len(chain) == 1 {
		return root
	}
	root.Object, root.Since, root.Chain = first.Object, first.Since, chain
	if first.Reason == verdict.VolumeStillUsed && root.Reason != first.Reason && len(first.Fix) > 1 {
		root.Fix = slices.Concat(first.Fix[:1], root.Fix) // that which saves the data
	}
	if !slices.Contains(root.Evidence, first.Evidence[0]) {
		root.Evidence = append(first.Evidence[:1:1], root.Evidence...)
	}
	return root
}

// linksOf are those of a finding: one, unless it is about the claim of a pod and was made for the
// pod.
func linksOf(f Finding) []Link {
	if len(f.Chain) > 0 {
		return f.Chain
	}
	return []Link{{f.Object, f.WaitsFor}}
}

// circle is about objects of which each waits for the next and the last for an earlier one.
func (c *Cluster) circle(f Finding, chain []Link, again Ref) Finding {
	from := slices.IndexFunc(chain, func(l Link) bool { return l.Object == again })
	var names []string
	for _, link := range chain[from:] {
		names = append(names, link.Object.String())
	}
	f.Actor, f.Cause, f.Chain = User, again, chain
	f.WaitsFor = fmt.Sprintf("itself: %s waits for %s", strings.Join(names, " waits for "), again)
	f.Decision, f.Words, f.Event, f.Until = "", "", "", nil
	if f.Reason == verdict.WebhookUnreachable {
		f.Reason, f.Actor = verdict.WaitsInCircle, Administrator
		f.Fix = append([]Step{{
			Text: "The program serves the webhook that its own pods need: have the webhook leave out the program's " +
				"namespace",
		}}, f.Fix...)
		return f
	}
	f.Reason = verdict.WaitsInCircle
	f.Fix = []Step{{
		Text: "None of them can go on before another one does. Delete one, and create it again with another source",
	}}
	for _, link := range chain[from:] {
		claim := c.claimOf(link.Object)
		if claim != nil && claim.Status.Phase != corev1.ClaimBound {
			f.Fix = []Step{{
				Text:    fmt.Sprintf("Delete claim %s, and create it again with another source", claim.Name),
				Command: shell.Command("kubectl -n %s delete pvc %s", claim.Namespace, claim.Name),
				Risk:    "no data is lost: the claim was never bound to a volume",
			}}
			break
		}
	}
	return f
}

func (c *Cluster) claimOf(ref Ref) *corev1.PersistentVolumeClaim {
	if ref.Kind != Claim {
		return nil
	}
	return c.index.claims[ref.key()]
}

// overdue gives a step that goes on by itself the time by which it should be over. When that has
// passed, the administrator has to look.
func (c *Cluster) overdue(f Finding) Finding {
	if f.Actor != Itself {
		return f
	}
	since, waited := c.lastChange(f.Object), ""
	if f.Since != nil {
		since = *f.Since
	}
	if since.IsZero() || slices.Contains(begunElsewhere, f.Reason) && c.Now.Sub(since) > ordinary {
		since, waited = c.created(f.Object), "not known"
	}
	if f.Until == nil {
		until := since.Add(ordinary)
		f.Until = &until
	}
	if c.Now.Before(*f.Until) {
		return c.stalled(f)
	}
	f.Actor = Administrator
	f.Evidence = append(f.Evidence, Evidence{
		f.Cause, "time that it waits", cmp.Or(waited, age(c.Now.Sub(since))), "at most " + age(f.Until.Sub(since)),
	})
	begin := "It should have gone on by itself by now"
	if waited != "" {
		begin = "It goes on by itself if it has begun within the last minutes. If not"
	}
	isNothing := func(s Step) bool { return strings.HasPrefix(s.Text, "Nothing: ") }
	f.Fix = append(slices.DeleteFunc(slices.Clone(f.Fix), isNothing), Step{
		Text:    begin + ": read the events of the object, and the log of the program that it waits for",
		Command: shell.Command("kubectl describe %s %s", f.Cause.Kind.Short(), f.Cause.Name).In(f.Cause.Namespace),
	})
	f.Until = nil
	return f
}

// begunElsewhere are waits that begin with a change of another object: the end of the last pod on a
// node, or that of the node.
var begunElsewhere = []verdict.Reason{verdict.DetachAwaitsUnmount, verdict.AttachmentOrphaned}

// lastChange is when an object was written last, by its managed fields, its conditions and the
// events about it; zero where none of them tells.
func (c *Cluster) lastChange(ref Ref) (last time.Time) {
	note := func(t time.Time) {
		if t.After(last) && !t.After(c.Now) {
			last = t
		}
	}
	for _, entry := range c.managedFields(ref) {
		if entry.Time != nil {
			note(entry.Time.Time)
		}
	}
	if claim := c.claimOf(ref); claim != nil {
		for _, condition := range claim.Status.Conditions {
			note(condition.LastTransitionTime.Time)
		}
	}
	if pv := c.index.volumes[ref.Name]; ref.Kind == Volume && pv != nil && pv.Status.LastPhaseTransitionTime != nil {
		note(pv.Status.LastPhaseTransitionTime.Time)
	}
	for _, event := range c.index.events[ref] {
		if !c.contradicted(ref, event) {
			note(EventTime(event))
		}
	}
	return last
}

// created is when an object was created; now where that is not known.
func (c *Cluster) created(ref Ref) time.Time {
	if object := c.metaOf(ref); object != nil {
		return object.GetCreationTimestamp().Time
	}
	if va := c.attachmentNamed(ref.Name); ref.Kind == Attachment && va != nil {
		return va.CreationTimestamp.Time
	}
	return c.Now
}

func (c *Cluster) managedFields(ref Ref) []metav1.ManagedFieldsEntry {
	if claim := c.claimOf(ref); claim != nil {
		return claim.ManagedFields
	}
	if pv := c.index.volumes[ref.Name]; ref.Kind == Volume && pv != nil {
		return pv.ManagedFields
	}
	if va := c.attachmentNamed(ref.Name); ref.Kind == Attachment && va != nil {
		return va.ManagedFields
	}
	return nil
}
