package life

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/e2e/stage"
)

// Zones is a cluster with the zones a and b of 100 MiB each, of which a gets full. The names are
// those in examples/zones.yaml.
type Zones struct {
	Stage    *stage.Stage
	Examples string // folder with the manifests
}

// ArgumentsOfZones are the flags of the `up` that Zones needs.
func ArgumentsOfZones() []string { return []string{"--zones", "a=100Mi,b=100Mi"} }

// Steps are all steps, in order.
func (z *Zones) Steps() []Step {
	return []Step{
		{"two nodes, each in a zone of 100 MiB", z.nodes},
		{"a pod in zone a gets a volume of 70 MiB there", z.filled},
		{"a pod that prefers zone a, which is full, gets its volume and its node in zone b", z.elsewhere},
	}
}

func (z *Zones) nodes(ctx context.Context) (string, error) {
	var nodes corev1.NodeList
	if err := z.Stage.Client.List(ctx, &nodes); err != nil {
		return "", err
	}
	var seen strings.Builder
	for i := range nodes.Items {
		fmt.Fprintf(&seen, "%s in zone %s  ", nodes.Items[i].Name, nodes.Items[i].Labels[corev1.LabelTopologyZone])
	}
	return seen.String(), nil
}

func (z *Zones) filled(ctx context.Context) (string, error) {
	manifest := filepath.Join(z.Examples, "zones.yaml")
	if _, err := os.Stat(manifest); err != nil {
		return "", err
	}
	err := until(ctx, func(ctx context.Context) (bool, error) {
		_, err := z.Stage.Kubectl(ctx, "apply", "-f", manifest, "-l", "demo=fills-zone-a")
		return err == nil, nil // a new namespace has no default service account at first
	})
	if err != nil {
		return "", fmt.Errorf("apply %s: %w", manifest, err)
	}
	return z.awaitZone(ctx, "cargo", "a")
}

func (z *Zones) elsewhere(ctx context.Context) (string, error) {
	if _, err := z.Stage.Kubectl(ctx, "apply", "-f", filepath.Join(z.Examples, "zones.yaml"), "-l", "demo=prefers-zone-a"); err != nil {
		return "", err
	}
	return z.awaitZone(ctx, "ballast", "b")
}

// awaitZone waits until the pod of a claim is on a node in the zone, and the volume too.
func (z *Zones) awaitZone(ctx context.Context, name, zone string) (string, error) {
	var pod corev1.Pod
	var node corev1.Node
	var claim corev1.PersistentVolumeClaim
	key := client.ObjectKey{Namespace: "default", Name: name}
	err := until(ctx, func(ctx context.Context) (bool, error) {
		if z.Stage.Client.Get(ctx, key, &pod) != nil || z.Stage.Client.Get(ctx, key, &claim) != nil {
			return false, nil
		}
		if pod.Spec.NodeName == "" {
			return false, nil
		}
		err := z.Stage.Client.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, &node)
		return claim.Status.Phase == corev1.ClaimBound, err
	})
	if err != nil {
		return "", fmt.Errorf("pod %s has no node: %w", name, err)
	}
	var volume corev1.PersistentVolume
	if err := z.Stage.Client.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, &volume); err != nil {
		return "", err
	}
	at := volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
	if got := node.Labels[corev1.LabelTopologyZone]; got != zone || at != zone {
		return "", fmt.Errorf("pod %s is in zone %s, its volume in zone %s, want %s", name, got, at, zone)
	}
	return fmt.Sprintf("pod %s on %s, PersistentVolume with nodeAffinity zone %s", name, node.Name, at), nil
}
