package explain

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// onlyTold are the reasons of decisions that no object shows: they follow from an answer of the driver or of
// the API server, or from the state of a process. Only an event tells them. The value is the party that acts.
var onlyTold = map[verdict.Reason]Actor{
	verdict.CapacityInvalid: Vendor, verdict.CapacityUnknown: Administrator,
	verdict.CreateAttributesForbidden: Administrator, verdict.CreateResponseInvalid: Vendor,
	verdict.DataSourceUnrecognized: Administrator, verdict.DeletionHeldUp: Administrator,
	verdict.DriverLacks: Administrator, verdict.EphemeralFailed: Administrator,
	verdict.GroupContentHeld: Administrator, verdict.HotLoopThrottled: Administrator,
	verdict.JournalFull: Administrator, verdict.ModifyDriverLacks: Administrator,
	verdict.NamespaceForbidden: Administrator, verdict.PopulatorNameTaken: Administrator,
	verdict.PopulatorSourceInvalid: User, verdict.PopulatorSourceMissing: User,
	verdict.PopulatorSourceNotGranted: Administrator, verdict.PopulatorWriteFailed: Administrator,
	verdict.ProvisionerNotAsked: Administrator, verdict.ProvisioningHeldUp: Administrator,
	verdict.ResizeNeedsOffline: User, verdict.SecretUnfit: Administrator, verdict.SourceForbidden: Administrator,
	verdict.VolumeHealthStatusUnknown: Administrator, verdict.VolumeRejected: Administrator,
	verdict.VolumeSecretUnreadable: Administrator,
}

// reasonOf returns the reason of the decision that an event is about. Purser's programs write it beside the
// reason of the event, which several decisions share. Empty where that is not known.
func reasonOf(event *corev1.Event) verdict.Reason {
	return verdict.OfEvent(event.Reason, verdict.Reason(event.Annotations[names.AnnReason]))
}

// told is the finding about a decision that only an event tells; ok is false for another event, or none.
func (c *Cluster) told(event *corev1.Event, f Finding) (_ Finding, ok bool) {
	if event == nil {
		return f, false
	}
	actor, ok := onlyTold[reasonOf(event)]
	if !ok {
		return f, false
	}
	return c.toldAs(reasonOf(event), actor, event, f), true
}

// toldAs is the finding about a decision that an event tells.
func (c *Cluster) toldAs(reason verdict.Reason, actor Actor, event *corev1.Event, f Finding) Finding {
	f.Decision, f.Words, f.Event = "", "", ""
	f = f.waits(reason, actor, "the next attempt; the last one failed: %s", said(event, event.Message))
	f.Evidence = append(f.Evidence, eventEvidence(event, c.Now))
	f.Fix = []Step{{
		Text:    verdict.Advice(reason),
		Command: shell.Command("kubectl describe %s %s", f.Object.Kind.Short(), f.Object.Name).In(f.Object.Namespace),
	}}
	return f
}

// withThrottled adds to what an object waits for that its controller repeats the same without a change.
func (c *Cluster) withThrottled(report Report) Report {
	if len(report.Findings) == 0 {
		return report
	}
	event := c.lastEvent(report.Object, string(verdict.HotLoopThrottled))
	if f, ok := c.told(event, findingAbout(report.Object, report.Findings[0].Since)); ok {
		report.Findings = append(report.Findings, f)
	}
	return report
}
