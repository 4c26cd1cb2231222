package life

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	mounting "github.com/purser-csi/purser/internal/node/rules"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// Life is a volume with its claim and pod. The names are those in examples/.
type Life struct {
	Stage    *stage.Stage
	Examples string // folder with the manifests
	// Claim and Pod are names; empty for those in examples/.
	Claim, Pod string

	claim   corev1.PersistentVolumeClaim
	pod     corev1.Pod
	volume  corev1.PersistentVolume
	written string
}

// Step is one thing that must happen.
type Step struct {
	Name string
	// Run performs the step or waits for it. It returns a description of the result.
	Run func(context.Context) (string, error)
}

// Steps are all steps, in order.
func (l *Life) Steps() []Step { return append(l.Begin(), l.End()...) }

// Begin is the first half: when it is done, the volume is published and in use.
func (l *Life) Begin() []Step {
	return []Step{
		{"claim created", l.createClaim},
		{"provisioning asked", l.asked},
		{"volume created", l.created},
		{"PV written", l.writtenPV},
		{"claim bound", l.bound},
		{"pod scheduled", l.schedule},
		{"pod's volume published", l.publish},
		{"file written and read back", l.useFile},
	}
}

// End is the second half: when it is done, nothing is left.
func (l *Life) End() []Step {
	return []Step{
		{"pod's volume unpublished", l.unpublish},
		{"claim deleted", l.deleteClaim},
		{"volume gone", l.gone},
	}
}

func (l *Life) claimKey() client.ObjectKey {
	return client.ObjectKey{Namespace: "default", Name: cmp.Or(l.Claim, "logbook")}
}

func (l *Life) podKey() client.ObjectKey {
	return client.ObjectKey{Namespace: "default", Name: cmp.Or(l.Pod, "sailor")}
}

func (l *Life) createClaim(ctx context.Context) (string, error) {
	if _, err := l.Stage.Kubectl(ctx, "apply", "-f", filepath.Join(l.Examples, "claim.yaml")); err != nil {
		return "", err
	}
	if err := l.Stage.Client.Get(ctx, l.claimKey(), &l.claim); err != nil {
		return "", err
	}
	size := l.claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return fmt.Sprintf("%s, %s", l.claimKey(), size.String()), nil
}

func (l *Life) asked(ctx context.Context) (string, error) {
	seen := ""
	err := until(ctx, func(ctx context.Context) (bool, error) {
		var events corev1.EventList
		if err := l.Stage.Client.List(ctx, &events, client.InNamespace(l.claimKey().Namespace)); err != nil {
			return false, err
		}
		for _, e := range events.Items {
			if e.InvolvedObject.UID == l.claim.UID && e.Reason == "Provisioning" {
				seen = "event " + e.Reason + " from " + e.Source.Component
				return true, nil
			}
		}
		return false, nil
	})
	return seen, err
}

// volumeName follows from the claim's uid.
func (l *Life) volumeName() string { return "pvc-" + string(l.claim.UID) }

// folder is where the driver keeps the volume: its files, or an image of them.
func (l *Life) folder() string { return filepath.Join(l.Stage.VolumesDir(), l.volumeName()) }

func (l *Life) created(ctx context.Context) (string, error) {
	return l.shown(l.folder()), until(ctx, func(context.Context) (bool, error) {
		info, err := os.Stat(l.folder())
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		return err == nil && info.IsDir(), err
	})
}

func (l *Life) writtenPV(ctx context.Context) (string, error) {
	err := until(ctx, func(ctx context.Context) (bool, error) {
		err := l.Stage.Client.Get(ctx, client.ObjectKey{Name: l.volumeName()}, &l.volume)
		return err == nil, client.IgnoreNotFound(err)
	})
	return l.volume.Name, err
}

func (l *Life) bound(ctx context.Context) (string, error) {
	err := until(ctx, func(ctx context.Context) (bool, error) {
		err := l.Stage.Client.Get(ctx, l.claimKey(), &l.claim)
		return l.claim.Status.Phase == corev1.ClaimBound, err
	})
	return string(l.claim.Status.Phase) + " to " + l.claim.Spec.VolumeName, err
}

func (l *Life) schedule(ctx context.Context) (string, error) {
	if _, err := l.Stage.Kubectl(ctx, "apply", "-f", filepath.Join(l.Examples, "pod.yaml")); err != nil {
		return "", err
	}
	err := until(ctx, func(ctx context.Context) (bool, error) {
		err := l.Stage.Client.Get(ctx, l.podKey(), &l.pod)
		return l.pod.Spec.NodeName != "", err
	})
	return fmt.Sprintf("%s on node %s", l.podKey(), l.pod.Spec.NodeName), err
}

// Target is the target path at which a kubelet would publish the volume for the pod.
func (l *Life) Target() string {
	return filepath.Join(
		l.Stage.DataDir,
		"pods",
		string(l.pod.UID),
		"volumes",
		"kubernetes.io~csi",
		l.volumeName(),
		"mount",
	)
}

// publish waits for the node agent.
func (l *Life) publish(ctx context.Context) (string, error) {
	err := until(ctx, func(ctx context.Context) (bool, error) {
		err := l.Stage.Client.Get(ctx, l.podKey(), &l.pod)
		published := slices.ContainsFunc(l.pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == names.ConditionVolumesPublished && c.Status == corev1.ConditionTrue
		})
		return published, err
	})
	return l.shown(l.Target()), err
}

// shown shortens a path below the data folder for a line of a terminal: without that folder, and
// with short uids.
func (l *Life) shown(path string) string {
	path, _ = strings.CutPrefix(path, l.Stage.DataDir+"/")
	for _, uid := range []string{string(l.pod.UID), string(l.claim.UID)} {
		if len(uid) > shownUID {
			path = strings.ReplaceAll(path, uid, uid[:shownUID]+"…")
		}
	}
	return path
}

const shownUID = 8

// staged returns the staging path, empty for a driver without a stage step.
func (l *Life) staged(ctx context.Context) (string, error) {
	stages, err := l.stages(ctx)
	if err != nil || !stages {
		return "", err
	}
	key := mounting.Key{Driver: l.volume.Spec.CSI.Driver, Handle: l.volume.Spec.CSI.VolumeHandle}
	return mounting.Layout{Root: l.Stage.DataDir}.Stage(key, mounting.DeviceID{Mode: mounting.Filesystem}), nil
}

func (l *Life) stages(ctx context.Context) (bool, error) {
	answer, err := l.Stage.Driver.Node().NodeGetCapabilities(ctx, &csi.NodeGetCapabilitiesRequest{})
	for _, c := range answer.GetCapabilities() {
		if c.GetRpc().GetType() == csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME {
			return true, err
		}
	}
	return false, err
}

func (l *Life) useFile(ctx context.Context) (string, error) {
	l.written = "day one, written " + time.Now().Format(time.RFC3339Nano)
	if err := os.WriteFile(filepath.Join(l.Target(), "entries"), []byte(l.written), 0o600); err != nil {
		return "", err
	}
	return l.ReadBack(ctx)
}

// ReadBack reads the data that the pod wrote by another path: in the folder of the driver, or at
// the staging path.
func (l *Life) ReadBack(ctx context.Context) (string, error) {
	dir, err := l.staged(ctx)
	if err != nil {
		return "", err
	}
	if dir == "" {
		dir = filepath.Join(l.folder(), "data")
	}
	var got []byte
	err = until(ctx, func(context.Context) (done bool, err error) { // an `up` that has just started stages it
		got, err = os.ReadFile(filepath.Join(dir, "entries"))
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return "", err
	}
	if string(got) != l.written {
		return "", fmt.Errorf("read %q, wrote %q", got, l.written)
	}
	return fmt.Sprintf("%q", got), nil
}

// unpublish deletes the pod, and waits until the node agent has unpublished its volume and the pod
// is gone.
func (l *Life) unpublish(ctx context.Context) (string, error) {
	if _, err := l.Stage.Kubectl(ctx, "delete", "pod", l.podKey().Name, "--wait=false"); err != nil {
		return "", err
	}
	err := until(ctx, func(ctx context.Context) (bool, error) {
		err := l.Stage.Client.Get(ctx, l.podKey(), &corev1.Pod{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(l.Target()); !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%s is still there", l.Target())
	}
	return "pod deleted", nil
}

func (l *Life) deleteClaim(ctx context.Context) (string, error) {
	if _, err := l.Stage.Kubectl(ctx, "delete", "pvc", l.claimKey().Name); err != nil {
		return "", err
	}
	return l.claimKey().String(), until(ctx, func(ctx context.Context) (bool, error) {
		err := l.Stage.Client.Get(ctx, l.claimKey(), &corev1.PersistentVolumeClaim{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

func (l *Life) gone(ctx context.Context) (string, error) {
	err := until(ctx, func(ctx context.Context) (bool, error) {
		err := l.Stage.Client.Get(ctx, client.ObjectKey{Name: l.volumeName()}, &corev1.PersistentVolume{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(l.folder()); !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("the PV is gone, and %s is still there", l.folder())
	}
	return "no PV, nothing on disk", nil
}

// stepTime bounds one step. It is generous: a step takes milliseconds on an idle machine.
const stepTime = time.Minute

func until(ctx context.Context, done wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, stepTime, true, done)
}
