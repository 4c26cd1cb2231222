package explain

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
)

// signsLast is how long a write shows that a program without a lease may still run: nothing is written
// where nothing is to be done.
const signsLast = 24 * time.Hour

// sign identifies a program that writes objects: its manager in managedFields, and the driver of the
// object; empty for an object of all drivers.
type sign struct{ manager, driver string }

// hasActed reports whether a component has written an object lately. One that elects no leader has no
// lease to renew, as a sidecar with one replica.
func (c *Cluster) hasActed(of component) bool {
	signs := c.signs()
	for _, manager := range []string{of.sidecar, of.ours, "purser-" + of.sidecar, "purser-sidecars"} {
		if at := signs[sign{manager, of.driver}]; manager != "" && !at.IsZero() && c.Now.Sub(at) < signsLast {
			return true
		}
	}
	return false
}

// signs returns when each program wrote last.
func (c *Cluster) signs() map[sign]time.Time {
	if c.index.lastSigns != nil {
		return c.index.lastSigns
	}
	all := map[sign]time.Time{}
	note := func(o metav1.Object, drivers ...string) {
		for _, entry := range o.GetManagedFields() {
			for _, driver := range drivers {
				key := sign{entry.Manager, driver}
				if entry.Time != nil && entry.Time.After(all[key]) {
					all[key] = entry.Time.Time
				}
			}
		}
	}
	for _, claim := range c.Claims {
		note(claim, "")
	}
	for _, pv := range c.Volumes {
		if pv.Spec.CSI != nil {
			note(pv, "", pv.Spec.CSI.Driver)
		}
	}
	for _, va := range c.Attachments {
		note(va, "", va.Spec.Attacher)
	}
	for _, content := range c.Contents {
		note(content, "", content.Spec.Driver)
	}
	for _, s := range c.Snapshots {
		note(s, "")
	}
	for _, driver := range c.CSIDrivers { // the journal of a provisioner
		for _, lease := range c.Leases {
			if strings.TrimPrefix(lease.Name, names.JournalLeasePrefix) == leaseName(driver.Name) {
				note(lease, driver.Name)
			}
		}
	}
	c.index.lastSigns = all
	return all
}
