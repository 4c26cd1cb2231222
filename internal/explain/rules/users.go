package explain

import (
	"cmp"
	"fmt"
	"slices"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/objects"
)

// Explain answers about one object. An object that is not there, or a kind that was not read, gives
// the state [Unknown]. About a class, a driver, a lease or a secret it says what uses it and what is stuck
// because of it, and about an object that is well which wish was refused last.
func (c *Cluster) Explain(ref Ref) Report {
	report := c.toTheRoot(c.explainAsked(ref))
	switch event := c.lastRefusal(ref); {
	case report.State == Well:
		report.Refused = c.lastWish(ref)
	case report.State == Unknown && !c.lacks(ref.Kind) && event != nil:
		if f, ok := c.refusedBy(event, Finding{Object: ref, Cause: ref}); ok {
			report.Summary += "; the API server refused to create it"
			report.Findings = []Finding{f}
			report = c.toTheRoot(c.finish(report, Event))
		}
	}
	return c.withUsers(report)
}

// explainAsked is [Cluster.explain] for the object that was asked about. A workload is explained pod by pod,
// and classes and components are, through which no chain leads.
func (c *Cluster) explainAsked(ref Ref) Report {
	var report *Report
	switch ref.Kind {
	case Deployment, StatefulSet, DaemonSet, ReplicaSet, Job:
		report = about(c.workloadOf(ref), c.explainShortage)
	case CSIDriver:
		report = about(c.index.drivers[ref.Name], c.explainDriver)
	case CSINode:
		report = about(c.index.csiNodes[ref.Name], c.explainCSINode)
	case AttributesClass:
		report = about(c.attributesClass(ref.Name), c.explainAttributesClass)
	case SnapshotClass:
		report = about(c.index.snapshotClass[ref.Name], c.explainSnapshotClass)
	case GroupClass:
		report = about(c.index.groupClasses[ref.Name], c.explainGroupClass)
	case Lease:
		report = about(c.index.leases[ref.key()], c.explainLease)
	case Secret:
		report = c.explainSecret(ref)
	default:
		return c.explain(ref)
	}
	if report == nil {
		return c.absent(ref)
	}
	return *report
}

// withUsers adds what uses the object, those that wait because of it first. If the object itself is well, and
// others wait because of it for what does not go on by itself, it is stuck as well.
func (c *Cluster) withUsers(report Report) Report {
	parts := c.partsOf(report.Object)
	if len(parts) == 0 || report.State == Unknown && len(report.Unread) > 0 {
		return report
	}
	own := len(report.Findings)
	for _, other := range c.Stuck("") {
		if other.Object == report.Object {
			continue
		}
		i := slices.IndexFunc(other.Findings, func(f Finding) bool { return isBecauseOf(f, parts) })
		if i < 0 {
			continue
		}
		f := other.Findings[i]
		report.Users = append(report.Users, Use{other.Object, linksOf(f)[0].WaitsFor})
		if own == 0 && report.State == Well && f.Actor != Itself {
			report.Findings = append(report.Findings, throughUser(report.Object, f))
		}
	}
	for _, user := range c.usersOf(report.Object) {
		if !slices.ContainsFunc(report.Users, func(u Use) bool { return u.Object == user }) {
			report.Users = append(report.Users, Use{Object: user})
		}
	}
	if own == 0 && len(report.Findings) > 0 {
		report.State, report.Next, report.Findings = Stuck, "", eachOnce(report.Findings)
	}
	return report
}

// isBecauseOf reports whether a wait leads to one of the objects.
func isBecauseOf(f Finding, parts []Ref) bool {
	return slices.Contains(parts, f.Cause) ||
		slices.ContainsFunc(f.Chain, func(l Link) bool { return slices.Contains(parts, l.Object) })
}

// throughUser is the finding of a user as one about what it uses.
func throughUser(of Ref, f Finding) Finding {
	user := f.Object
	chain := []Link{{of, fmt.Sprintf("its user %s to go on", user)}}
	for _, link := range linksOf(f) {
		if link.Object == of {
			break
		}
		chain = append(chain, link)
	}
	f.Object, f.Chain = of, chain
	return f
}

func eachOnce(findings []Finding) (once []Finding) {
	for _, f := range findings {
		if !slices.ContainsFunc(once, func(o Finding) bool { return isSameCause(o, f) }) {
			once = append(once, f)
		}
	}
	return once
}

// partsOf are the objects of which one is the cause, or on the way to it, if something is stuck because of a
// class, a driver, a lease or a secret; none for other objects.
func (c *Cluster) partsOf(ref Ref) []Ref {
	switch ref.Kind {
	case Class, AttributesClass, SnapshotClass, GroupClass, Secret:
		return []Ref{ref}
	case CSINode:
		return []Ref{ref, {Kind: Node, Name: ref.Name}}
	case CSIDriver:
		parts := []Ref{ref}
		for _, of := range componentsOf(ref.Name) {
			parts = append(parts, c.partsOfComponent(of)...)
		}
		if w := c.nodePlugin(ref.Name); w != nil {
			parts = append(parts, w.ref)
		}
		for _, node := range c.CSINodes {
			if !c.registered(node.Name, ref.Name) {
				parts = append(parts, Ref{Kind: CSINode, Name: node.Name})
			}
		}
		return parts
	case Lease:
		for _, of := range c.componentsWith(ref.Name) {
			return append(c.partsOfComponent(of), ref)
		}
		return []Ref{ref}
	default:
		return nil
	}
}

// partsOfComponent are the lease of a component, what runs it, and its pods.
func (c *Cluster) partsOfComponent(of component) (parts []Ref) {
	parts = []Ref{c.leaseRef(of)}
	by := c.runnerOf(of)
	if by.workload != nil {
		parts = append(parts, by.workload.ref)
	}
	for _, pod := range by.pods {
		parts = append(parts, podRef(pod))
	}
	return parts
}

// usersOf are the objects that name a class, a driver or a secret.
func (c *Cluster) usersOf(ref Ref) (users []Ref) {
	switch ref.Kind {
	case Class:
		users = c.claimsWith(func(claim *corev1.PersistentVolumeClaim) bool {
			return objects.ClaimClass(claim) == ref.Name
		})
		for _, pv := range c.Volumes {
			if objects.VolumeClass(pv) == ref.Name && pv.Spec.ClaimRef == nil {
				users = append(users, volumeRef(pv))
			}
		}
	case AttributesClass:
		users = c.claimsWith(func(claim *corev1.PersistentVolumeClaim) bool {
			return deref(claim.Spec.VolumeAttributesClassName) == ref.Name ||
				deref(claim.Status.CurrentVolumeAttributesClassName) == ref.Name
		})
	case SnapshotClass:
		users = c.contentsWith(func(content *snapshotv1.VolumeSnapshotContent) bool {
			return deref(content.Spec.VolumeSnapshotClassName) == ref.Name
		})
	case GroupClass:
		for _, content := range c.GroupContents {
			if deref(content.Spec.VolumeGroupSnapshotClassName) == ref.Name {
				of := content.Spec.VolumeGroupSnapshotRef
				users = append(users, Ref{GroupSnapshot, of.Namespace, of.Name})
			}
		}
	case CSIDriver:
		users = c.classesOf(ref.Name)
	case Secret:
		for _, named := range c.namersOf(ref) {
			users = append(users, named.where)
		}
	default:
	}
	slices.SortFunc(users, func(a, b Ref) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(users)
}

// claimsWith returns the claims that a condition selects.
func (c *Cluster) claimsWith(is func(*corev1.PersistentVolumeClaim) bool) (users []Ref) {
	for _, claim := range c.Claims {
		if is(claim) {
			users = append(users, claimRef(claim))
		}
	}
	return users
}

// contentsWith returns the snapshots of the contents that a condition selects.
func (c *Cluster) contentsWith(is func(*snapshotv1.VolumeSnapshotContent) bool) (users []Ref) {
	for _, content := range c.Contents {
		if of := content.Spec.VolumeSnapshotRef; is(content) {
			users = append(users, Ref{Snapshot, of.Namespace, of.Name})
		}
	}
	return users
}

// classesOf are the classes of all kinds that name a driver.
func (c *Cluster) classesOf(driver string) (users []Ref) {
	for _, class := range c.Classes {
		if class.Provisioner == driver {
			users = append(users, Ref{Kind: Class, Name: class.Name})
		}
	}
	for _, class := range c.AttributesClasses {
		if class.DriverName == driver {
			users = append(users, Ref{Kind: AttributesClass, Name: class.Name})
		}
	}
	for _, class := range c.SnapshotClasses {
		if class.Driver == driver {
			users = append(users, Ref{Kind: SnapshotClass, Name: class.Name})
		}
	}
	for _, class := range c.GroupClasses {
		if class.Driver == driver {
			users = append(users, Ref{Kind: GroupClass, Name: class.Name})
		}
	}
	return users
}
