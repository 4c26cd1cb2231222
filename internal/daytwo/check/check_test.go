package check

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	rules "github.com/purser-csi/purser/internal/daytwo/rules"
	"github.com/purser-csi/purser/internal/kube"
)

// world answers as controllers, a driver and a kubelet would: each object has its final state when it is created.
type world struct {
	sums   map[string]string // what the pod of a claim reads; others read what was written
	refuse func(o client.Object) error
	policy corev1.PersistentVolumeReclaimPolicy
	kept   []string // volumes that were left by their policy
}

const written = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func (w *world) client(t *testing.T) client.WithWatch {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	node.Status.NodeInfo.KubeletVersion = "v1.37.2"
	class := &snapshotv1.VolumeSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: "snaps"}, Driver: "d.example.com"}
	return fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(node, class).WithStatusSubresource(
		&snapshotv1.VolumeSnapshot{},
	).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if w.refuse != nil {
				if err := w.refuse(o); err != nil {
					return err
				}
			}
			if err := w.finish(ctx, c, o); err != nil {
				return err
			}
			answered, is := o.DeepCopyObject().(client.Object)
			if err := c.Create(ctx, o, opts...); err != nil || !is {
				return err
			}
			answered.SetResourceVersion(o.GetResourceVersion())
			return c.Status().Update(ctx, answered)
		},
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption,
		) error {
			if err := c.Patch(ctx, o, p, opts...); err != nil {
				return err
			}
			if claim, is := o.(*corev1.PersistentVolumeClaim); is {
				claim.Status.Capacity = claim.Spec.Resources.Requests
				return c.Status().Update(ctx, claim)
			}
			return nil
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if claim, is := o.(*corev1.PersistentVolumeClaim); is {
				pv := &corev1.PersistentVolume{}
				if err := c.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, pv); err != nil {
					return err
				}
				if pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
					w.kept = append(w.kept, pv.Name)
				} else if err := c.Delete(ctx, pv); err != nil {
					return err
				}
			}
			return c.Delete(ctx, o, opts...)
		},
	}).Build()
}

func (w *world) finish(ctx context.Context, c client.Client, o client.Object) error {
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		o.Spec.VolumeName = "pv-" + o.Name
		o.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: o.Spec.Resources.Requests}
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: o.Spec.VolumeName}}
		pv.Spec.Capacity, pv.Spec.PersistentVolumeReclaimPolicy = o.Spec.Resources.Requests, w.policy
		return c.Create(ctx, pv)
	case *corev1.Pod:
		sum := w.sums[o.Name]
		if sum == "" {
			sum = written
		}
		o.Spec.NodeName, o.Status.Phase = "n", corev1.PodRunning
		o.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: answers, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Message: sum + "\n"},
		}}}
	case *snapshotv1.VolumeSnapshot:
		o.Status = &snapshotv1.VolumeSnapshotStatus{ReadyToUse: new(true)}
	}
	return nil
}

func (w *world) config(t *testing.T) Config {
	t.Helper()
	policy := w.policy
	return Config{
		Client: w.client(t), Namespace: "scratch", Name: "c", Size: resource.MustParse("1Gi"),
		Mode: corev1.ReadWriteOnce,
		Class: &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "d.example.com", AllowVolumeExpansion: new(true),
			ReclaimPolicy: &policy,
		},
		StepTimeout: 10 * time.Second, Poll: time.Millisecond, Progress: func(rules.CheckStep) {},
	}
}

func outcomes(r rules.CheckReport) string {
	var all []string
	for _, s := range r.Steps {
		all = append(all, string(s.Outcome[:1]))
	}
	return strings.Join(all, "")
}

// mustBeClean fails if an object of the check is left.
func mustBeClean(t *testing.T, name string, c client.Client, r rules.CheckReport) {
	t.Helper()
	if len(r.Left) > 0 {
		t.Errorf("%s: left %q", name, r.Left)
	}
	var pods corev1.PodList
	var claims corev1.PersistentVolumeClaimList
	var snapshots snapshotv1.VolumeSnapshotList
	var volumes corev1.PersistentVolumeList
	for _, list := range []client.ObjectList{&pods, &claims, &snapshots, &volumes} {
		if err := c.List(context.Background(), list); err != nil {
			t.Fatal(err)
		}
	}
	if left := len(pods.Items) + len(claims.Items) + len(snapshots.Items) + len(volumes.Items); left > 0 {
		t.Errorf("%s: %d objects are left", name, left)
	}
}

// Each step has the outcome that the cluster deserves, and everything is deleted whatever happens. The letters
// are those of passed, failed and skipped.
func TestRun(t *testing.T) {
	refuse := func(kind, name string) func(client.Object) error {
		return func(o client.Object) error {
			_, isClaim := o.(*corev1.PersistentVolumeClaim)
			_, isPod := o.(*corev1.Pod)
			_, isSnapshot := o.(*snapshotv1.VolumeSnapshot)
			if o.GetName() == name && (kind == "claim" && isClaim || kind == "pod" && isPod ||
				kind == "snapshot" && isSnapshot) {
				return errors.New("refused")
			}
			return nil
		}
	}
	for name, tc := range map[string]struct {
		world world
		want  string
		text  string
	}{
		"all passes": {world{}, "pppppppp", "it has what was written"},
		"a class that retains": {
			world{policy: corev1.PersistentVolumeReclaimRetain}, "pppppppp", "3 volumes are gone",
		},
		"no claim":    {world{refuse: refuse("claim", "c")}, "fssssssp", "refused"},
		"no pod":      {world{refuse: refuse("pod", "c")}, "pfsppppp", "it needs: mount it in a pod"},
		"no snapshot": {world{refuse: refuse("snapshot", "c")}, "ppppfspp", "it needs: take a snapshot"},
		"another content": {
			world{sums: map[string]string{"c-restored": strings.Repeat("f", 64)}}, "pppppfpp", "was written",
		},
		"a pod that says nonsense": {
			world{sums: map[string]string{"c": "nonsense"}}, "ppfppppp", "which is no SHA-256",
		},
	} {
		cfg := tc.world.config(t)
		plan, err := Plan(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		r := Run(t.Context(), cfg, plan)
		page := &rules.Page{}
		r.Print(page)
		if got := outcomes(r); got != tc.want || !strings.Contains(page.String(), tc.text) {
			t.Errorf("%s: %s, want %s with %q\n%s", name, got, tc.want, tc.text, page)
		}
		mustBeClean(t, name, cfg.Client, r)
		if len(tc.world.kept) > 0 {
			t.Errorf("%s: kept %q", name, tc.world.kept)
		}
	}
}

// The pods have the network of their node only with HostNetwork.
func TestHostNetwork(t *testing.T) {
	cfg := (&world{}).config(t)
	for _, cfg.HostNetwork = range []bool{false, true} {
		if got := cfg.pod("", script{}).Spec.HostNetwork; got != cfg.HostNetwork {
			t.Errorf("%t: the pod has %t", cfg.HostNetwork, got)
		}
	}
}

// When the time of the check ends, the step that waits says what it waited for, the next one fails, and
// everything is deleted.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		cfg := w.config(t)
		cfg.Poll, cfg.StepTimeout, cfg.Timeout = time.Second, 2*time.Minute, 4*time.Minute
		cfg.Client = interceptor.NewClient(w.client(t), interceptor.Funcs{
			Get: func(
				ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption,
			) error {
				err := c.Get(ctx, key, o, opts...)
				if claim, is := o.(*corev1.PersistentVolumeClaim); is && key.Name != "c" {
					claim.Status.Phase = corev1.ClaimPending
				}
				return err
			},
		})
		plan, err := Plan(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		r := Run(t.Context(), cfg, plan)
		if took := time.Since(began); took > cfg.Timeout {
			t.Errorf("it took %s", took)
		}
		page := &rules.Page{}
		r.Print(page)
		if got := outcomes(r); got != "pppppffp" || !strings.Contains(page.String(), "in time: pvc/c-clone is Pending") {
			t.Errorf("%s:\n%s", got, page)
		}
		mustBeClean(t, "without time", cfg.Client, r)

		cfg.Timeout = time.Minute
		r = Run(t.Context(), cfg, plan)
		if s := r.Steps[6]; s.Outcome != rules.Failed || s.Text != "not begun: the check may take 1m0s in all" {
			t.Errorf("%+v", r.Steps)
		}
	})
}

// After Ctrl-C no further step is taken, and everything is deleted.
func TestRunInterrupted(t *testing.T) {
	w := &world{}
	cfg := w.config(t)
	ctx, stop := context.WithCancel(t.Context())
	cfg.Progress = func(s rules.CheckStep) {
		if s.Step == rules.StepMount {
			stop()
		}
	}
	plan, err := Plan(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := Run(ctx, cfg, plan)
	if got := outcomes(r); got != "ppsssssp" || r.Steps[2].Text != "interrupted" {
		t.Errorf("%s: %+v", got, r.Steps)
	}
	mustBeClean(t, "interrupted", cfg.Client, r)
}
