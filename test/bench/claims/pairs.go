package claims

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/bench/runner"
)

// driverName is that of the built-in driver.
const driverName = "csi.purser"

// makePairs makes claims and volumes that are bound to each other, as a cluster has them that is in
// use.
func (l load) makePairs(ctx context.Context, pairs int) error {
	if err := l.begin(ctx); err != nil {
		return err
	}
	if err := l.each(ctx, pairs, l.pair); err != nil {
		return fmt.Errorf("volumes that are there: %w", err)
	}
	return nil
}

func (l load) pair(ctx context.Context, i int) error {
	claim := usedClaim(i)
	return runner.CreateBound(ctx, l.api, claim, usedVolume(claim))
}

func volumeName(i int) string { return fmt.Sprintf("pvc-6f1d1c52-83a1-4c52-9d3e-%012d", i) }

// usedClaim is one of a StatefulSet that was applied with kubectl.
func usedClaim(i int) *corev1.PersistentVolumeClaim {
	claim := newClaim(namespace, i)
	class := "purser"
	claim.Labels = map[string]string{
		"app.kubernetes.io/name": "database", "app.kubernetes.io/instance": fmt.Sprintf("database-%d", i), "app.kubernetes.io/managed-by": "Helm",
	}
	claim.Annotations = map[string]string{
		names.AnnBindCompleted: "yes", "pv.kubernetes.io/bound-by-controller": "yes",
		names.AnnBetaStorageProvisioner: driverName, names.AnnStorageProvisioner: driverName,
		corev1.LastAppliedConfigAnnotation: fmt.Sprintf(
			`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"annotations":{},"labels":`+
				`{"app.kubernetes.io/instance":"database-%d","app.kubernetes.io/name":"database"},"name":%q,"namespace":%q},"spec":`+
				`{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"storageClassName":"purser"}}`,
			i,
			claim.Name,
			namespace,
		),
	}
	claim.Spec.StorageClassName = &class
	claim.Spec.VolumeName = volumeName(i)
	return claim
}

// usedVolume is one that only some nodes reach.
func usedVolume(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	volume := newVolume(claim, driverName)
	volume.Name = claim.Spec.VolumeName
	volume.Spec.CSI.FSType = "ext4"
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{
		Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: "topology.kubernetes.io/zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"zone-a"},
			}},
		}}},
	}
	return volume
}
