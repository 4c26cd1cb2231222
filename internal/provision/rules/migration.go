package provision

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/verdict"
)

// Migrated returns the snapshot with the class of a migrated in-tree plugin translated to one of
// the CSI driver (M-3, M-4). A snapshot without such a class is returned unchanged.
func Migrated(s Snapshot) Snapshot {
	plugin := objects.InTree(s.Driver.Name)
	if plugin == "" || s.Class == nil || s.Class.Provisioner != plugin {
		return s
	}
	translated, err := objects.Class(s.Class)
	if err != nil { // C-52
		s.Untranslated = err.Error()
		return s
	}
	s.Class, s.InTree = translated, plugin
	return s
}

// asMigrated returns the PersistentVolume as it is written: for a class of an in-tree plugin, as a
// volume of that plugin (C-73, M-5, P-18).
func asMigrated(s Snapshot, pv *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
	if s.InTree == "" {
		return pv, nil
	}
	return objects.ToInTree(pv)
}

// untranslated deletes a volume that cannot be translated into one of the in-tree plugin. The next
// volume would fail alike, so the retry is slow (H-13).
func untranslated(s Snapshot, sent CreateVolume, handle string, err error) Verdict {
	return discardAnswered(s, sent, handle, refuse{Retry: verdict.RetrySlowly, Finding: verdict.Finding{
		Reason:  verdict.CreateResponseInvalid,
		Message: fmt.Sprintf("CSI driver %q: %v; the volume was deleted again", s.Driver.Name, err),
		Fix:     fmt.Sprintf("Name a StorageClass whose provisioner is %q", s.Driver.Name),
	}})
}

// asCSI returns a PersistentVolume translated to CSI. One that cannot be translated is returned as
// it is; it is not of a volume that the driver created.
func asCSI(pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	translated, err := objects.ToCSI(pv)
	if err != nil {
		return pv
	}
	return translated
}
