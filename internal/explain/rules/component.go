package explain

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/purser-csi/purser/internal/names"
)

// component is a program that has to act, and the name of the lease that its leader holds.
type component struct {
	name  string // in reports
	lease string
	ours  string // lease of the role of Purser that can take its place; empty where that has the same
	// sidecar is the name of its container, and driver the one that it serves; empty for all.
	sidecar, driver string
}

// isLease reports whether a lease is that of the component.
func (c component) isLease(name string) bool {
	name = strings.ToLower(name)
	return name == c.lease || c.ours != "" && name == c.ours || name == names.LeaseUp
}

// IsComponentLease reports whether a lease has the name that a component of the volume plane, or a
// sidecar of one of the drivers, gives it.
func IsComponentLease(name string, drivers []string) bool {
	for _, driver := range append(drivers, "") {
		for _, of := range []component{
			provisioner(driver), attacher(driver), resizer(driver), snapshotter(driver), snapshotController,
			controllerManager, scheduler,
		} {
			if of.isLease(name) {
				return true
			}
		}
	}
	return strings.HasPrefix(name, "purser-")
}

func provisioner(driver string) component {
	// LK-1
	return component{
		name: "the external-provisioner of " + driver, lease: leaseName(driver), sidecar: "csi-provisioner",
		driver: driver,
	}
}

func attacher(driver string) component {
	// AT-M5
	return component{
		name: "the external-attacher of " + driver, lease: leaseName("external-attacher-leader-" + driver),
		sidecar: "csi-attacher", driver: driver,
	}
}

func resizer(driver string) component {
	return component{
		name: "the external-resizer of " + driver, lease: leaseName("external-resizer-" + driver),
		sidecar: "csi-resizer", driver: driver,
	}
}

func snapshotter(driver string) component {
	return component{
		name: "the csi-snapshotter of " + driver, lease: leaseName("external-snapshotter-leader-" + driver),
		sidecar: "csi-snapshotter", driver: driver,
	}
}

var (
	snapshotController = component{
		name: "the snapshot-controller", lease: "snapshot-controller-leader", sidecar: "snapshot-controller",
	}
	controllerManager = component{
		name: "kube-controller-manager", lease: "kube-controller-manager", ours: "purser-controllers",
		sidecar: "kube-controller-manager",
	}
	scheduler = component{name: "kube-scheduler", lease: "kube-scheduler", sidecar: "kube-scheduler"}
)

var notInLeaseName = regexp.MustCompile(`[^A-Za-z0-9-]`)

// leaseName returns the name that the sidecars make of a driver's name (LK-1).
func leaseName(text string) string {
	name := notInLeaseName.ReplaceAllString(text, "-")
	if strings.HasSuffix(name, "-") {
		name += "X"
	}
	return strings.ToLower(name)
}

// health is the state of a component by its lease.
type health int

const (
	unknownHealth health = iota // leases were not read, or it has none and wrote an object lately
	noLease                     // no lease of the name: never started with leader election, or never started
	expired                     // the holder stopped renewing
	renewed                     // the holder renews in time
)

// healthOf looks for the lease of the component in all namespaces. The newest counts.
func (c *Cluster) healthOf(of component) (health, *coordinationv1.Lease) {
	if c.lacks(Lease) {
		return unknownHealth, nil
	}
	var newest *coordinationv1.Lease
	for _, lease := range c.Leases {
		if of.isLease(lease.Name) && (newest == nil || renewTime(lease).After(renewTime(newest))) {
			newest = lease
		}
	}
	switch {
	case newest == nil && c.hasActed(of):
		return unknownHealth, nil
	case newest == nil:
		return noLease, nil
	case newest.Spec.HolderIdentity == nil || *newest.Spec.HolderIdentity == "" || c.Now.After(leaseEnd(newest)):
		return expired, newest
	}
	return renewed, newest
}

func renewTime(lease *coordinationv1.Lease) time.Time {
	if lease.Spec.RenewTime == nil {
		return lease.CreationTimestamp.Time
	}
	return lease.Spec.RenewTime.Time
}

// leaseEnd returns when the lease ends if it is not renewed. A minute is added for clocks that
// differ and for dumps that take a while.
func leaseEnd(lease *coordinationv1.Lease) time.Time {
	seconds := int32(15)
	if lease.Spec.LeaseDurationSeconds != nil {
		seconds = *lease.Spec.LeaseDurationSeconds
	}
	return renewTime(lease).Add(time.Duration(seconds)*time.Second + time.Minute)
}

// leaseRef names the lease of a component where it is, and where the component usually has it if
// there is none.
func (c *Cluster) leaseRef(of component) Ref {
	if _, lease := c.healthOf(of); lease != nil {
		return Ref{Lease, lease.Namespace, lease.Name}
	}
	return Ref{Lease, "kube-system", of.lease}
}

// leaseEvidence describes the lease; it has one entry, or two.
func (c *Cluster) leaseEvidence(of component) []Evidence {
	state, lease := c.healthOf(of)
	switch state {
	case noLease:
		return []Evidence{{
			Ref{Kind: Lease, Name: of.lease},
			"metadata.name", "there is no such lease in any namespace",
			"a lease that " + of.name + " renews",
		}}
	case expired, renewed:
		ref := Ref{Lease, lease.Namespace, lease.Name}
		holder := ""
		if lease.Spec.HolderIdentity != nil {
			holder = *lease.Spec.HolderIdentity
		}
		return []Evidence{
			{ref, "spec.holderIdentity", quoted(holder), ""},
			{
				ref, "spec.renewTime",
				fmt.Sprintf(
					"%s, %s ago", renewTime(lease).UTC().Format(time.RFC3339), age(c.Now.Sub(renewTime(lease))),
				),
				"",
			},
		}
	case unknownHealth:
	}
	return nil
}

// quoted marks an empty value as such.
func quoted(value string) string {
	if value == "" {
		return `""`
	}
	return value
}

// age prints a duration as kubectl does: its largest unit, or two of them.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
