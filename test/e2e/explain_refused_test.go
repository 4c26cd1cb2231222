package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The quotas of refusedObjects count no other objects of the namespace. Their status is what the quota
// controller would write, which does not run here.
const refusedObjects = `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: %[1]s-high}
value: 1000
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: high, namespace: %[1]s}
spec: {hard: {pods: "0"}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [%[1]s-high]}]}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: gold, namespace: %[1]s}
spec: {hard: {count/persistentvolumeclaims: "0"}, scopeSelector: {matchExpressions: [{scopeName: VolumeAttributesClass, operator: In, values: [%[1]s-gold]}]}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: claims, namespace: %[1]s}
spec: {limits: [{type: PersistentVolumeClaim, max: {storage: 1Gi}}]}
`

// setOf is a StatefulSet with one claim: its name, the namespace, and fields of the pod and of the claim.
const setOf = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  replicas: %[5]d
  serviceName: %[1]s
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {%[3]s terminationGracePeriodSeconds: 0, containers: [{name: c, image: none}]}
  volumeClaimTemplates:
  - {metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], %[4]s}}
`

const small = "resources: {requests: {storage: 4Mi}}"

// refusedThings are objects that the API server refuses, and what waits for others that are not there.
func refusedThings() []stuckThing {
	set := func(name, pod, claim string, replicas int) func(t *testing.T, b testNamespace) string {
		return func(t *testing.T, b testNamespace) string {
			pod, claim = fmt.Sprintf(pod, b.name), fmt.Sprintf(claim, b.name)
			b.apply(t, fmt.Sprintf(setOf, name, b.name, pod, claim, replicas))
			return "statefulset/" + name
		}
	}
	quota := func(t *testing.T, b testNamespace) string {
		b.apply(t, fmt.Sprintf(refusedObjects, b.name))
		for _, name := range []string{"high", "gold"} {
			of := &corev1.ResourceQuota{}
			of.Namespace, of.Name = b.name, name
			must(t, b.Client.Get(t.Context(), client.ObjectKeyFromObject(of), of))
			of.Status.Hard, of.Status.Used = of.Spec.Hard, of.Spec.Hard
			must(t, b.Client.Status().Update(t.Context(), of))
		}
		return set("high", "priorityClassName: %[1]s-high,", small+"%.0[1]s", 1)(t, b)
	}
	return []stuckThing{
		{"a quota of a priority class", "QuotaExceeded", quota},
		{"a quota of an attributes class", "QuotaExceeded", set(
			"gold", "%.0[1]s", "volumeAttributesClassName: %[1]s-gold, "+small, 1,
		)},
		{"a claim beyond a LimitRange", "LimitRangeExceeded", set(
			"large", "%.0[1]s", "resources: {requests: {storage: 4Gi}}%.0[1]s", 1,
		)},
		{"a StatefulSet that is scaled to 0", "WorkloadScaledDown", set("none", "%.0[1]s", small+"%.0[1]s", 0)},
		{"a claim that is not that of the ephemeral volume", "EphemeralTaken", func(t *testing.T, b testNamespace) string {
			b.claim(t, "scratch-v", "")
			b.podOf(t, "scratch", "", func(pod *corev1.Pod) {
				pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
					VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: b.newClaim("", "").Spec},
				}}
			})
			return "pod/scratch"
		}},
		{"a group snapshot that selects no claim", "GroupContentCreateFailed", func(t *testing.T, b testNamespace) string {
			b.apply(t, fmt.Sprintf(`
apiVersion: groupsnapshot.storage.k8s.io/v1
kind: VolumeGroupSnapshot
metadata: {name: group, namespace: %s}
spec: {volumeGroupSnapshotClassName: nope, source: {selector: {matchLabels: {app: absent}}}}
`, b.name))
			return "volumegroupsnapshot/group"
		}},
	}
}

// apply creates the objects of a manifest.
func (b testNamespace) apply(t *testing.T, manifest string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "objects.yaml")
	must(t, os.WriteFile(path, []byte(manifest), 0o600))
	_, err := b.Kubectl(t.Context(), "apply", "-f", path)
	must(t, err)
}
