package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/purser-csi/purser/internal/daytwo/grow"
	daytwo "github.com/purser-csi/purser/internal/daytwo/rules"
	"github.com/purser-csi/purser/internal/explain/inventory"
	"github.com/purser-csi/purser/internal/names"
)

// set creates a StatefulSet with two claims, and returns when its pods run.
func (b testNamespace) set(t *testing.T) *appsv1.StatefulSet {
	t.Helper()
	labels := map[string]string{"app": "db"}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: "db", Labels: map[string]string{"kept": "yes"}, Annotations: map[string]string{"example.com/kept": "too"}},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(2)), ServiceName: "db", Selector: &metav1.LabelSelector{MatchLabels: labels},
			PodManagementPolicy: appsv1.ParallelPodManagement,
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "c", Image: "i", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
			}},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: b.newClaim("data", "").Spec,
			}},
		},
	}
	must(t, b.apps(t).Create(t.Context(), set))
	eventually(t, func(ctx context.Context) error {
		for _, name := range []string{"db-0", "db-1"} {
			pod := &corev1.Pod{}
			if err := b.Client.Get(ctx, client.ObjectKey{Namespace: b.name, Name: name}, pod); err != nil || pod.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("pod %s is %s, %w", name, pod.Status.Phase, err)
			}
		}
		return nil
	})
	return set
}

// apps is a client that knows StatefulSets.
func (b testNamespace) apps(t *testing.T) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(b.Admin, client.Options{Scheme: inventory.Scheme()})
	must(t, err)
	return c
}

// expands skips a test where the driver cannot expand volumes.
func (b testNamespace) expands(t *testing.T) {
	t.Helper()
	class := &storagev1.StorageClass{}
	must(t, b.Client.Get(t.Context(), client.ObjectKey{Name: "purser"}, class))
	if class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion {
		t.Skip("the driver of purser up has directories here, which cannot be expanded; run as root")
	}
}

func (b testNamespace) podUIDs(t *testing.T) (uids []types.UID) {
	t.Helper()
	for _, name := range []string{"db-0", "db-1"} {
		pod := &corev1.Pod{}
		must(t, b.Client.Get(t.Context(), client.ObjectKey{Namespace: b.name, Name: name}, pod))
		uids = append(uids, pod.UID)
	}
	return uids
}

// Claims and template get the size, the pods stay the same, and everything else of the StatefulSet is kept.
func TestDayTwoGrow(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, shared(t))
	b.expands(t)
	before := b.set(t)
	pods := b.podUIDs(t)
	out, notes, code := b.dayTwo(t, "grow", "sts/db", "8Mi", "-n", b.name)
	if code != 0 || !strings.Contains(out, "This was a dry run.") || !strings.Contains(out, "data-db-1") {
		t.Fatalf("exit code %d\n%s%s", code, out, notes)
	}
	for _, line := range strings.Split(strings.TrimSpace(out), "\n")[1:] {
		if strings.HasPrefix(line, "CLAIM") || strings.HasPrefix(line, "5. ") || strings.HasPrefix(line, "This was") {
			isQuoted(t, line)
		}
	}
	b.mustHave(t, before.UID, "4Mi")
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: "q"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourceRequestsStorage: resource.MustParse("10Mi")}
	must(t, b.Client.Create(t.Context(), quota))
	eventually(t, func(context.Context) error { // the quota counts once its controller has
		out, _, code := b.dayTwo(t, "grow", "sts/db", "8Mi", "-n", b.name, "--yes")
		if code != daytwo.ExitFound || !strings.Contains(out, "Refused: ") {
			return fmt.Errorf("exit code %d\n%s", code, out)
		}
		return nil
	})
	b.mustHave(t, before.UID, "4Mi")
	must(t, b.Client.Delete(t.Context(), quota))
	want := 0
	if !hasResourceCapability(t) {
		want = daytwo.ExitFound // a mounted ext4 is not expanded
	}
	out, notes, code = b.dayTwo(t, "grow", "sts/db", "8Mi", "-n", b.name, "--yes", "--filesystem-timeout", "5s")
	if code != want || !strings.Contains(out, "Done: StatefulSet "+b.name+"/db and its claims have 8Mi.") ||
		strings.Contains(out, "Not expanded yet: pvc/data-db-1") != (want != 0) {
		t.Fatalf("exit code %d\n%s%s", code, out, notes)
	}
	after := b.mustHave(t, "", "8Mi")
	if after.UID == before.UID || after.Labels["kept"] != "yes" || after.Annotations["example.com/kept"] != "too" || *after.Spec.Replicas != 2 {
		t.Errorf("%+v", after)
	}
	if now := b.podUIDs(t); now[0] != pods[0] || now[1] != pods[1] {
		t.Errorf("pods %v, and %v before", now, pods)
	}
	if out, _, code = b.dayTwo(t, "grow", "sts/db", "8Mi", "-n", b.name); code != 0 || !strings.Contains(out, "Nothing to do") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// mustHave fails unless the template and the claims have a size, and the StatefulSet the uid, if one is given.
func (b testNamespace) mustHave(t *testing.T, uid types.UID, size string) *appsv1.StatefulSet {
	t.Helper()
	set := &appsv1.StatefulSet{}
	must(t, b.apps(t).Get(t.Context(), client.ObjectKey{Namespace: b.name, Name: "db"}, set))
	request := set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]
	if uid != "" && set.UID != uid || request.String() != size {
		t.Errorf("uid %s, size %s, want %s %s", set.UID, request.String(), uid, size)
	}
	for _, name := range []string{"data-db-0", "data-db-1"} {
		claim := &corev1.PersistentVolumeClaim{}
		must(t, b.Client.Get(t.Context(), client.ObjectKey{Namespace: b.name, Name: name}, claim))
		if request := claim.Spec.Resources.Requests[corev1.ResourceStorage]; request.String() != size {
			t.Errorf("%s asks for %s, want %s", name, request.String(), size)
		}
	}
	var secrets corev1.SecretList
	must(t, b.Client.List(t.Context(), &secrets, client.InNamespace(b.name), client.MatchingLabels{names.LabelManagedBy: names.ManagedByPurser}))
	if len(secrets.Items) > 0 {
		t.Errorf("left: secret %s", secrets.Items[0].Name)
	}
	return set
}

// errKilled stands for the end of the process.
var errKilled = errors.New("killed")

// A command that is killed between the deletion of the StatefulSet and its creation is repeated, and goes on.
func TestDayTwoGrowAfterKill(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, shared(t))
	b.expands(t)
	b.set(t)
	pods := b.podUIDs(t)
	killed := interceptor.NewClient(b.apps(t), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			var options client.CreateOptions
			options.ApplyOptions(opts)
			if _, is := o.(*appsv1.StatefulSet); is && len(options.DryRun) == 0 {
				return errKilled
			}
			return c.Create(ctx, o, opts...)
		},
	})
	cfg := grow.Config{
		Client: killed, Namespace: b.name, Set: "db", Size: resource.MustParse("8Mi"), Timeout: 20 * time.Second,
		Poll: 20 * time.Millisecond, Progress: t.Logf,
	}
	in, err := grow.Gather(t.Context(), cfg)
	must(t, err)
	plan := daytwo.PlanGrowth(in)
	refused, err := grow.Try(t.Context(), cfg, plan, in.Set)
	if err != nil || len(refused) > 0 || len(plan.Refused) > 0 {
		t.Fatalf("%v, %v, %v", refused, plan.Refused, err)
	}
	must(t, grow.Expand(t.Context(), cfg, plan))
	cfg.Timeout = time.Second
	if err := grow.Replace(t.Context(), cfg, plan); err == nil || !strings.Contains(err.Error(), "secret/purser-grow-db") {
		t.Fatalf("%v", err)
	}
	if err := b.apps(t).Get(t.Context(), client.ObjectKey{Namespace: b.name, Name: "db"}, &appsv1.StatefulSet{}); client.IgnoreNotFound(err) != nil || err == nil {
		t.Fatalf("the StatefulSet: %v", err)
	}
	out, _, code := b.dayTwo(t, "grow", "sts/db", "8Mi", "-n", b.name)
	if code != 0 || !strings.Contains(out, "With --yes it is created from secret/purser-grow-db") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	out, notes, code := b.dayTwo(t, "grow", "sts/db", "8Mi", "-n", b.name, "--yes")
	if code != 0 || !strings.Contains(out, "Done: ") {
		t.Errorf("exit code %d\n%s%s", code, out, notes)
	}
	b.mustHave(t, "", "8Mi")
	if now := b.podUIDs(t); now[0] != pods[0] || now[1] != pods[1] {
		t.Errorf("pods %v, and %v before", now, pods)
	}
}
