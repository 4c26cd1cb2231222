package life

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/e2e/stage"
)

// Copies is a volume whose snapshot is restored into another one. The names are those in
// examples/snapshot.yaml.
type Copies struct {
	Stage    *stage.Stage
	Examples string // folder with the manifests

	source, restored Life
	old              string // what the file had when the snapshot was taken
}

var snapshotKey = client.ObjectKey{Namespace: "default", Name: "logbook-monday"}

// Possible reports whether the driver supports snapshots. The directory backend, which users other
// than root get, does not.
func (c *Copies) Possible(ctx context.Context) (bool, error) {
	answer, err := c.Stage.Driver.Controller().ControllerGetCapabilities(ctx, &csi.ControllerGetCapabilitiesRequest{})
	for _, one := range answer.GetCapabilities() {
		if one.GetRpc().GetType() == csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT {
			return true, err
		}
	}
	return false, err
}

// Steps are all steps, in order. When they are done, nothing is left.
func (c *Copies) Steps() []Step {
	c.source = Life{Stage: c.Stage, Examples: c.Examples}
	c.restored = Life{Stage: c.Stage, Examples: c.Examples, Claim: "logbook-restored", Pod: "archivist"}
	return []Step{
		{"pod writes a file", c.begin},
		{"snapshot taken", c.take},
		{"file changed", c.change},
		{"claim restored from the snapshot", c.restore},
		{"old content in the new volume", c.compare},
		{"pods, claims and snapshot deleted", c.end},
	}
}

// begin runs the first steps of the source volume, the last of which writes the file.
func (c *Copies) begin(ctx context.Context) (seen string, err error) {
	for _, step := range c.source.Begin() {
		if seen, err = step.Run(ctx); err != nil {
			return "", fmt.Errorf("%s: %w", step.Name, err)
		}
	}
	c.old = c.source.written
	return seen, nil
}

func (c *Copies) apply(ctx context.Context, label string) error {
	_, err := c.Stage.Kubectl(ctx, "apply", "-f", filepath.Join(c.Examples, "snapshot.yaml"), "-l", "demo="+label)
	return err
}

func (c *Copies) take(ctx context.Context) (string, error) {
	if err := c.apply(ctx, "takes-a-snapshot"); err != nil {
		return "", err
	}
	vs := &snapshotv1.VolumeSnapshot{}
	err := until(ctx, func(ctx context.Context) (bool, error) {
		err := c.Stage.Client.Get(ctx, snapshotKey, vs)
		return vs.Status != nil && vs.Status.ReadyToUse != nil && *vs.Status.ReadyToUse, err
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is ready, of %s", snapshotKey, vs.Status.RestoreSize), nil
}

func (c *Copies) change(ctx context.Context) (string, error) {
	c.source.written = "day two, written " + time.Now().Format(time.RFC3339Nano)
	if err := os.WriteFile(filepath.Join(c.source.Target(), "entries"), []byte(c.source.written), 0o600); err != nil {
		return "", err
	}
	return c.source.ReadBack(ctx)
}

func (c *Copies) restore(ctx context.Context) (string, error) {
	if err := c.apply(ctx, "restores-a-snapshot"); err != nil {
		return "", err
	}
	if err := c.Stage.Client.Create(ctx, c.podOfRestored()); err != nil {
		return "", err
	}
	if err := c.Stage.Client.Get(ctx, c.restored.claimKey(), &c.restored.claim); err != nil {
		return "", err
	}
	seen, err := c.restored.bound(ctx)
	if err != nil {
		return "", err
	}
	if _, err := c.restored.publish(ctx); err != nil {
		return "", err
	}
	return c.restored.shown(seen), nil
}

func (c *Copies) podOfRestored() *corev1.Pod {
	claim := corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.restored.claimKey().Name}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.restored.podKey().Namespace, Name: c.restored.podKey().Name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "archivist", Image: "busybox", VolumeMounts: []corev1.VolumeMount{{Name: "logbook", MountPath: "/logbook"}},
			}},
			Volumes: []corev1.Volume{{Name: "logbook", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &claim}}},
		},
	}
}

// compare reads both volumes: the restored one has the content of the snapshot, the source the
// current one.
func (c *Copies) compare(context.Context) (string, error) {
	got, err := os.ReadFile(filepath.Join(c.restored.Target(), "entries"))
	if err != nil {
		return "", err
	}
	now, err := os.ReadFile(filepath.Join(c.source.Target(), "entries"))
	switch {
	case err != nil:
		return "", err
	case string(got) != c.old:
		return "", fmt.Errorf("the restored volume has %q, and the snapshot was taken of %q", got, c.old)
	case string(now) != c.source.written:
		return "", fmt.Errorf("the source has %q, and %q was written", now, c.source.written)
	}
	return fmt.Sprintf("%q", got), nil
}

func (c *Copies) end(ctx context.Context) (string, error) {
	for _, l := range []*Life{&c.restored, &c.source} {
		for _, step := range []func(context.Context) (string, error){l.unpublish, l.deleteClaim, l.gone} {
			if _, err := step(ctx); err != nil {
				return "", err
			}
		}
	}
	if _, err := c.Stage.Kubectl(ctx, "delete", "volumesnapshot", snapshotKey.Name); err != nil {
		return "", err
	}
	err := until(ctx, func(ctx context.Context) (bool, error) {
		var contents snapshotv1.VolumeSnapshotContentList
		if err := c.Stage.Client.List(ctx, &contents); err != nil || len(contents.Items) > 0 {
			return false, err
		}
		err := c.Stage.Client.Get(ctx, snapshotKey, &snapshotv1.VolumeSnapshot{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		return "", errors.Join(errors.New("the snapshot stays"), err)
	}
	return "no PV, no snapshot", nil
}
