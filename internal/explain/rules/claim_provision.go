package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/shell"
	source "github.com/purser-csi/purser/internal/sources/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// provisioning explains a claim for which the provisioner of its class was asked. The findings are
// in the order of the steps: the provisioner refuses, no provisioner runs, the driver returned an
// error.
func (c *Cluster) provisioning(claim *corev1.PersistentVolumeClaim, s binding.Snapshot, f Finding) []Finding {
	if source.Of(claim).IsForeign() {
		return c.populating(claim, f)
	}
	driver := binding.Driver(s.Class.Provisioner)
	var findings []Finding
	if unreadable := c.journalUnreadable(driver, claim.Annotations[names.AnnSelectedNode], f); unreadable != nil {
		findings = append(findings, *unreadable)
	}
	refused, unread := c.provisionRefused(claim, driver, f)
	findings = append(findings, refused...)
	failed := c.lastEventNotBy(binderName, claimRef(claim), "ProvisioningFailed")
	absent := c.provisionerAbsent(claim, s.Class, driver, f, failed)
	isLater := failed == nil || !c.renewedAfter(provisioner(driver), EventTime(failed))
	if absent != nil && len(findings) == len(refused) && isLater {
		findings = append(findings, *absent)
	}
	if failed != nil {
		findings = append(findings, c.driverAnswer(claim, s.Class, f, failed))
	}
	if len(findings) == 0 {
		findings = append(findings, c.underWay(claim, driver, f))
	}
	findings[0].Evidence = append(findings[0].Evidence, unread...)
	return findings
}

func (c *Cluster) registered(node, driver string) bool {
	csiNode := c.index.csiNodes[node]
	if csiNode == nil {
		return false
	}
	for _, d := range csiNode.Spec.Drivers {
		if d.Name == driver {
			return true
		}
	}
	return false
}

func (c *Cluster) driversOn(node string) string {
	csiNode := c.index.csiNodes[node]
	if csiNode == nil {
		return "there is no CSINode " + node
	}
	var list []string
	for _, d := range csiNode.Spec.Drivers {
		list = append(list, d.Name)
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

func (c *Cluster) registerFix(driver, node string) []Step {
	return []Step{{
		Text: "See whether the driver's node pod (a DaemonSet) runs on the node, and what its " +
			"node-driver-registrar says",
		Command: shell.Command("kubectl get pods -A -o wide --field-selector spec.nodeName=%s | grep -i csi", node),
	}, {Text: fmt.Sprintf(
		"The kubelet registers a driver by a socket in its plugins_registry folder; a taint or a node selector often "+
			"keeps the DaemonSet of %s away",
		driver,
	)}}
}

// provisionerAbsent reports that no provisioner for the driver shows a sign of life; nil if one
// does, or if that is not known.
func (c *Cluster) provisionerAbsent(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass,
	driver string, f Finding, failed *corev1.Event,
) *Finding {
	state, _ := c.healthOf(provisioner(driver))
	asked := claim.CreationTimestamp.Time
	emitted := (failed != nil || c.lastEvent(claimRef(claim), "Provisioning") != nil) && c.isInstalled(driver)
	if state == renewed || state == unknownHealth || c.Now.Sub(asked) < patience || state == noLease && emitted {
		return nil
	}
	f = f.about(Ref{Kind: CSIDriver, Name: driver}).waits(verdict.ProvisionerSilent, Administrator,
		"%s, which shows no sign of life", provisioner(driver).name)
	f.Evidence = append([]Evidence{{Ref{Kind: Class, Name: class.Name}, "provisioner", class.Provisioner, ""}},
		c.leaseEvidence(provisioner(driver))...)
	if c.driverOf(driver) == nil && !c.lacks(CSIDriver) {
		f.Evidence = append(f.Evidence, Evidence{f.Cause, "metadata.name", "there is no such CSIDriver", driver})
		f.Fix = append(f.Fix, Step{
			Text: fmt.Sprintf(
				"No driver of that name is installed. Is the provisioner of StorageClass %q spelled as the driver "+
					"calls itself? Installed are: %s",
				class.Name, c.installed(),
			),
			Command: "kubectl get csidriver",
		})
	}
	f.Fix = append(f.Fix, Step{
		Text:    "See whether the driver's controller pod runs and what its csi-provisioner container says",
		Command: "kubectl get pods -A | grep -i csi",
	})
	f = c.byRunner(provisioner(driver), f)
	return &f
}

// isInstalled reports whether an object shows that the driver is installed: a CSIDriver, or a node
// that it is registered on. It is true where these were not read.
func (c *Cluster) isInstalled(driver string) bool {
	return c.lacks(CSIDriver) || c.lacks(CSINode) || c.driverOf(driver) != nil ||
		slices.ContainsFunc(c.CSINodes, func(node *storagev1.CSINode) bool { return c.registered(node.Name, driver) })
}

func (c *Cluster) installed() string {
	var list []string
	for _, d := range c.CSIDrivers {
		list = append(list, d.Name)
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// renewedAfter reports whether the component was seen alive later than t.
func (c *Cluster) renewedAfter(of component, t time.Time) bool {
	state, lease := c.healthOf(of)
	return state == renewed && renewTime(lease).After(t)
}

// createReasons are those of an error of the driver.
var createReasons = []verdict.Reason{
	verdict.CreateFailed, verdict.CreateUncertain, verdict.CreateInfeasible, verdict.CreateExhausted,
}

// driverAnswer reads the last ProvisioningFailed event.
func (c *Cluster) driverAnswer(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, f Finding,
	event *corev1.Event,
) Finding {
	answer := readAnswer(class.Provisioner, event.Message)
	if found, is := c.secretForbiddenByEvent(event, provisionerAccount, secretsOfClass(claim, class), f); is {
		return found
	}
	if found, is := c.told(event, f); is {
		return found
	}
	f.Reason, f.Cause = verdict.CreateFailed, Ref{Kind: Class, Name: class.Name}
	f.Actor = answer.actor
	switch words := said(event, answer.words); answer.code {
	case "":
		f.WaitsFor = "the provisioner's next attempt; the last one failed: " + words
	case "ResourceExhausted":
		f.Reason, f.WaitsFor = verdict.CreateExhausted, "room on the storage: the driver has none: "+words
	default:
		f.WaitsFor = fmt.Sprintf("the driver to accept the request; it answered %s: %s", answer.code, words)
	}
	if reason := reasonOf(event); slices.Contains(createReasons, reason) {
		f.Reason = reason
	}
	f.Evidence = []Evidence{eventEvidence(event, c.Now)}
	answer.step.Command = shell.Command("kubectl get storageclass %s -o yaml", class.Name)
	again := Step{
		Text:    "The attempt is repeated by itself, with growing pauses of up to some minutes",
		Command: shell.Command("kubectl -n %s describe pvc %s", claim.Namespace, claim.Name),
	}
	if f.Reason == verdict.CreateInfeasible || f.Reason == verdict.CreateUncertain {
		again.Text = verdict.Advice(f.Reason)
	}
	f.Fix = []Step{answer.step, again}
	return f
}

// underWay is said while a provisioner is alive and has not failed.
func (c *Cluster) underWay(claim *corev1.PersistentVolumeClaim, driver string, f Finding) Finding {
	f.Cause, f.Actor = Ref{Kind: CSIDriver, Name: driver}, Itself
	f.WaitsFor = fmt.Sprintf("driver %q to create the volume", driver)
	f.Evidence = c.leaseEvidence(provisioner(driver))
	if event := c.lastEvent(claimRef(claim), "Provisioning"); event != nil {
		f.Evidence = append(f.Evidence, eventEvidence(event, c.Now))
		if took := c.Now.Sub(EventTime(event)); took > 5*time.Minute {
			f.Actor, f.Reason = Administrator, verdict.DriverSlow
			f.Fix = []Step{{
				Text:    "CreateVolume has had no answer for " + age(took) + ": read the driver's log",
				Command: "kubectl get pods -A | grep -i csi",
			}}
		}
	} else if waited := c.Now.Sub(claim.CreationTimestamp.Time); waited > 5*time.Minute && !c.lacks(Event) {
		f.Actor, f.Reason = Administrator, verdict.DriverSlow
		f.Fix = []Step{{
			Text: "The provisioner's lease is renewed, but there is no event of it about this claim: read its log " +
				"(is it throttled, is another driver's provisioner using the same lease name?)",
			Command: "kubectl get pods -A | grep -i csi",
		}}
	}
	if f.Actor == Administrator {
		f = c.readLog(provisioner(driver), f)
	}
	return f
}

func provisionerUnknown(claim *corev1.PersistentVolumeClaim, s binding.Snapshot, f Finding) Finding {
	f.Cause, f.Actor = Ref{Kind: Class, Name: s.Class.Name}, Administrator
	f.WaitsFor = fmt.Sprintf(
		"a provisioner called %q: Kubernetes has none of that name, and its in-tree plugins were removed",
		s.Class.Provisioner,
	)
	if s.Class.Provisioner == "kubernetes.io/no-provisioner" {
		f.WaitsFor = fmt.Sprintf(
			"a PersistentVolume of class %q made by hand: the class provisions nothing (kubernetes.io/no-provisioner)",
			s.Class.Name,
		)
		f.Fix = []Step{{
			Text:    "Create a PersistentVolume of this class that fits, or let a local-volume provisioner do it",
			Command: "kubectl get pv",
		}}
	} else {
		f.Fix = []Step{{
			Text: "Create a class with the name of an installed CSI driver as its provisioner, and the claim " +
				"again with that class",
			Command: "kubectl get csidriver",
		}}
	}
	f.Evidence = []Evidence{
		{f.Cause, "provisioner", s.Class.Provisioner, "the name of a CSI driver"},
		{claimRef(claim), "spec.storageClassName", s.Class.Name, ""},
	}
	return f
}
