package reclaim

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// reuseFinding returns why the annotation purser/reuse keeps a volume from deletion; nil for no
// annotation (8.14). A binder of this program makes a volume with the annotation available again
// instead of releasing it. So the volume was released by another PV controller, which does not read
// the annotation, or it was annotated later, or its PersistentVolume is being deleted.
func reuseFinding(pv *corev1.PersistentVolume) *verdict.Finding {
	how, err := objects.Reuse(pv)
	switch {
	case err != nil:
		return &verdict.Finding{
			Reason: verdict.ReuseInvalid, Message: "the volume is not deleted: " + err.Error(),
			Fix: "To delete the volume, remove the annotation; to keep it, set the reclaim policy to Retain and " +
				"correct the annotation",
		}
	case how == "":
		return nil
	}
	remove := fmt.Sprintf("remove the annotation: %s", shell.Command(
		"kubectl annotate pv %s %s-", pv.Name, names.AnnReuse,
	))
	found := verdict.Finding{
		Reason:  verdict.ReuseKept,
		Message: fmt.Sprintf("the volume is not deleted: annotation %s is %q", names.AnnReuse, how),
		Fix: "To delete the volume, " + remove + ". To make it available again, set its reclaim policy to Retain: " +
			"purser controllers, plane and up then do so, and no other PV controller does",
	}
	if pv.DeletionTimestamp != nil {
		found.Fix = "To delete the volume, " + remove +
			". To keep its data when the PersistentVolume is removed, set the reclaim policy to Retain"
	}
	return &found
}

// isKeptForReuse reports whether an annotation of ours keeps the volume from deletion.
func isKeptForReuse(pv *corev1.PersistentVolume) bool { return reuseFinding(pv) != nil }
