package binding

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
)

// inTreePrefix is that of plugins which were a part of Kubernetes. None is any more, as far as
// provisioning goes.
const inTreePrefix = "kubernetes.io/"

// Driver is the CSI driver that provisions for a class with this provisioner; "" when there is none.
func Driver(provisioner string) string {
	if driver := objects.Driver(provisioner); driver != "" {
		return driver
	}
	if strings.HasPrefix(provisioner, inTreePrefix) {
		return ""
	}
	return provisioner
}

// claimMigration is what the claim's migrated-to annotation is to say, and whether it says
// something else.
func claimMigration(claim *corev1.PersistentVolumeClaim) (driver string, wrong bool) {
	provisioner, ok := claim.Annotations[names.AnnStorageProvisioner]
	if !ok {
		provisioner, ok = claim.Annotations[names.AnnBetaStorageProvisioner]
	}
	return migration(provisioner, ok, claim.Annotations)
}

// volumeMigration is the same for a volume, which was provisioned by a plugin or was not; and which
// finalizers of its are of a provisioner that will never remove them (1.13).
func volumeMigration(pv *corev1.PersistentVolume) (driver string, stuck []string, wrong bool) {
	provisioner, ok := pv.Annotations[names.AnnProvisionedBy]
	driver, wrong = migration(provisioner, ok, pv.Annotations)
	if !ok || !strings.HasPrefix(provisioner, inTreePrefix) {
		return driver, nil, wrong
	}
	inTree := objects.Driver(provisioner) == ""
	kept := inTree && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	for _, finalizer := range pv.Finalizers {
		if finalizer == names.FinalizerInTree && !kept || finalizer == names.FinalizerVolume && inTree {
			stuck = append(stuck, finalizer)
		}
	}
	return driver, stuck, wrong || len(stuck) > 0
}

func migration(provisioner string, named bool, annotations map[string]string) (driver string, wrong bool) {
	has := annotations[names.AnnMigratedTo]
	if !named {
		return has, false
	}
	driver = objects.Driver(provisioner)
	return driver, driver != has
}

// Deleter returns the name of the component that deletes the volume, for messages: the provisioner,
// or else the driver.
func Deleter(pv *corev1.PersistentVolume) string {
	switch by := pv.Annotations[names.AnnProvisionedBy]; {
	case by != "" && Driver(by) != "":
		return Driver(by)
	case pv.Spec.CSI != nil:
		return pv.Spec.CSI.Driver
	}
	return "N/A"
}
