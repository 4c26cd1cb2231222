package names

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Annotations, taints and prefixes of attaching and detaching (volume-controllers C7, C8, C10;
// AT-N1 to AT-N3).
const (
	AnnManagedAttach    = "volumes.kubernetes.io/controller-managed-attach-detach" // on nodes; any value
	AnnMigratedPlugins  = "storage.alpha.kubernetes.io/migrated-plugins"           // on CSINodes
	AnnAttachedNodeID   = "csi.alpha.kubernetes.io/node-id"                        // on VolumeAttachments
	TaintOutOfService   = "node.kubernetes.io/out-of-service"
	VolumeNamePrefix    = "kubernetes.io/csi/"
	finalizerAttacher   = "external-attacher/"
	attachmentPrefix    = "csi-"
	LeaseAttacherPrefix = "external-attacher-leader-"
)

// Ours, on VolumeAttachments: what a detach needs after the PersistentVolume is gone (AT-H7). The
// secret is NAMESPACE/NAME.
const (
	AnnVolumeHandle  = "purser/volume-handle"
	AnnPublishSecret = "purser/publish-secret"
	// AnnAttachConfirmed names the process of the attach-detach controller that took the
	// VolumeAttachment over from a previous one.
	AnnAttachConfirmed = "purser/attach-confirmed"
)

// AttacherFinalizer returns the finalizer of a driver's attacher on VolumeAttachments and
// PersistentVolumes.
func AttacherFinalizer(driver string) string { return finalizerAttacher + SanitizeDriver(driver) }

// SanitizeDriver replaces every character outside [A-Za-z0-9-] with a dash. A trailing dash gets an
// X appended.
func SanitizeDriver(driver string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, driver)
	if strings.HasSuffix(clean, "-") {
		clean += "X"
	}
	return clean
}

// AttachmentName returns the name that the attach-detach controller and the kubelet give a
// VolumeAttachment.
func AttachmentName(handle, driver, node string) string {
	sum := sha256.Sum256([]byte(handle + driver + node))
	return attachmentPrefix + hex.EncodeToString(sum[:])
}

// UniqueVolumeName returns the name of a volume in the lists of a node's status.
func UniqueVolumeName(driver, handle string) string { return VolumeNamePrefix + driver + "^" + handle }

// ParseUniqueVolumeName is the inverse of UniqueVolumeName. It splits at the first '^': a driver's
// name has none, a handle may.
func ParseUniqueVolumeName(name string) (driver, handle string, ok bool) {
	rest, csi := strings.CutPrefix(name, VolumeNamePrefix)
	if !csi {
		return "", "", false
	}
	driver, handle, ok = strings.Cut(rest, "^")
	return driver, handle, ok && driver != "" && handle != ""
}

// IsAttachmentName reports whether a name has the form of those of AttachmentName.
func IsAttachmentName(name string) bool {
	sum, ok := strings.CutPrefix(name, attachmentPrefix)
	if !ok || len(sum) != 2*sha256.Size {
		return false
	}
	_, err := hex.DecodeString(sum)
	return err == nil
}
