package datasource

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/purser-csi/purser/internal/verdict"
)

// Snapshot has the inputs of a decision about one claim.
type Snapshot struct {
	Claim  *corev1.PersistentVolumeClaim // nil: it does not exist
	Served []schema.GroupKind            // the sourceKind of each VolumePopulator
}

// Action is empty: the decision is only said.
type Action struct{}

type nothing = verdict.Nothing[Action]

// The kinds that provisioners serve without a populator.
var (
	claimKind    = schema.GroupKind{Kind: "PersistentVolumeClaim"}
	snapshotKind = schema.GroupKind{Group: "snapshot.storage.k8s.io", Kind: "VolumeSnapshot"}
)

// Decide returns whether something serves the source of a claim. Upstream says so of bound claims too,
// and at each of their updates (DV-H1); a claim that has its volume needs no populator any more.
func Decide(s Snapshot) verdict.Verdict[Action] {
	switch kind, has := Kind(s.Claim); {
	case s.Claim == nil || s.Claim.DeletionTimestamp != nil:
		return because(verdict.DataSourceNone, "the claim does not exist any more, or is being deleted")
	case !has:
		return because(verdict.DataSourceNone, "the claim has no data source")
	case s.Claim.Spec.VolumeName != "":
		return because(verdict.DataSourceNone, "the claim has its volume")
	case kind == claimKind || kind == snapshotKind:
		return because(verdict.DataSourceKnown, "provisioners serve sources of the kind "+kind.String())
	case slices.Contains(s.Served, kind):
		return because(verdict.DataSourceKnown, "a VolumePopulator names the kind "+kind.String())
	default:
		return because(verdict.DataSourceUnrecognized,
			"The datasource for this PVC does not match any registered VolumePopulator: "+kind.String())
	}
}

// Result returns the label of upstream's metric for a check (DV-6).
func Result(s Snapshot) string {
	switch kind, has := Kind(s.Claim); {
	case !has:
		return "empty"
	case kind == claimKind:
		return "pvc"
	case kind == snapshotKind:
		return "snapshot"
	case slices.Contains(s.Served, kind):
		return "populator"
	}
	return "invalid"
}

// Kind returns the kind of a claim's source; false without one.
func Kind(claim *corev1.PersistentVolumeClaim) (kind schema.GroupKind, has bool) {
	if claim == nil || claim.Spec.DataSourceRef == nil {
		return kind, false
	}
	ref := claim.Spec.DataSourceRef
	if ref.APIGroup != nil {
		kind.Group = *ref.APIGroup
	}
	kind.Kind = ref.Kind
	return kind, true
}

func because(reason verdict.Reason, message string) verdict.Verdict[Action] {
	return nothing{Finding: verdict.Finding{Reason: reason, Message: message, Fix: verdict.Advice(reason)}}
}
