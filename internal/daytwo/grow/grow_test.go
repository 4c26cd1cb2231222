package grow

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	rules "github.com/purser-csi/purser/internal/daytwo/rules"
	"github.com/purser-csi/purser/internal/explain/inventory"
)

// cluster has a StatefulSet with one claim, whose volume is large enough already.
func cluster() client.WithWatch {
	requests := func(size string) corev1.VolumeResourceRequirements {
		return corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceStorage: resource.MustParse(size),
		}}
	}
	large := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	return fake.NewClientBuilder().WithScheme(inventory.Scheme()).WithObjects(
		&appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "db", UID: "old", Labels: map[string]string{"kept": "yes"},
			},
			Spec: appsv1.StatefulSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
				VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
					ObjectMeta: metav1.ObjectMeta{Name: "data"},
					Spec:       corev1.PersistentVolumeClaimSpec{Resources: requests("1Gi")},
				}},
			},
		},
		&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data-db-0"},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: new("fast"), VolumeName: "pv", Resources: requests("1Gi"),
			},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: large},
		},
		&corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv"},
			Spec: corev1.PersistentVolumeSpec{Capacity: large, PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "d.example.com", VolumeHandle: "h"},
			}},
		},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, AllowVolumeExpansion: new(true)},
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d.example.com"}},
	).Build()
}

// once does what one command does.
func once(ctx context.Context, c client.WithWatch) error {
	cfg := Config{
		Client: c, Namespace: "shop", Set: "db", Size: resource.MustParse("2Gi"), Timeout: time.Second,
		Poll: time.Millisecond, Progress: func(string, ...any) {},
	}
	saved, err := Unfinished(ctx, cfg)
	if err != nil {
		return err
	}
	if saved != nil {
		if err := Resume(ctx, cfg, saved); err != nil {
			return err
		}
	}
	in, err := Gather(ctx, cfg)
	if err != nil {
		return err
	}
	plan := rules.PlanGrowth(in)
	if len(plan.Refused) > 0 {
		return errors.New(plan.Refused[0])
	}
	if plan.IsDone() {
		return nil
	}
	if err := Expand(ctx, cfg, plan); err != nil || !plan.Replace {
		return err
	}
	return Replace(ctx, cfg, plan)
}

// killedAfter is a client whose process ends after some writes.
func killedAfter(c client.WithWatch, writes int) client.WithWatch {
	killed := errors.New("killed")
	alive := func() error {
		if writes--; writes < 0 {
			return killed
		}
		return nil
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := alive(); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := alive(); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption,
		) error {
			if err := alive(); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
}

func mustBeGrown(t *testing.T, c client.Client, at int) {
	t.Helper()
	set, claim := &appsv1.StatefulSet{}, &corev1.PersistentVolumeClaim{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "db"}, set); err != nil {
		t.Fatalf("killed after %d writes: %v", at, err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "data-db-0"}, claim); err != nil {
		t.Fatal(err)
	}
	have := set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]
	asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if have.String() != "2Gi" || asked.String() != "2Gi" || set.Labels["kept"] != "yes" || set.UID == "old" {
		t.Errorf("killed after %d writes: template %s, claim %s, %v", at, have.String(), asked.String(), set.ObjectMeta)
	}
	err := c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "purser-grow-db"}, &corev1.Secret{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("killed after %d writes: the Secret: %v", at, err)
	}
}

// A command that is killed before any of its writes is repeated, and ends with the same result.
func TestKilledBeforeEachWrite(t *testing.T) {
	const writes = 6 // claim; secret: delete, create; set: delete, create; secret: delete
	for at := range writes + 1 {
		c := cluster()
		err := once(t.Context(), killedAfter(c, at))
		if (err == nil) != (at == writes) {
			t.Errorf("killed after %d writes: %v", at, err)
		}
		if err != nil {
			if err := once(t.Context(), c); err != nil {
				t.Errorf("repeated after %d writes: %v", at, err)
			}
		}
		mustBeGrown(t, c, at)
	}
}

// If the API server refuses the new object for good, the old one is created again.
func TestRefusedReplacement(t *testing.T) {
	c := cluster()
	refusing := interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			set, is := o.(*appsv1.StatefulSet)
			if is {
				asked := set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests
				if size := asked[corev1.ResourceStorage]; size.String() == "2Gi" {
					return apierrors.NewForbidden(
						schema.GroupResource{Group: "apps", Resource: "statefulsets"}, "db", errors.New("by a policy"),
					)
				}
			}
			return c.Create(ctx, o, opts...)
		},
	})
	err := once(t.Context(), refusing)
	if err == nil || !strings.Contains(err.Error(), "the old one was created again") {
		t.Errorf("%v", err)
	}
	set := &appsv1.StatefulSet{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "db"}, set); err != nil ||
		set.Labels["kept"] != "yes" {
		t.Errorf("%v, %v", set, err)
	}
}

// A StatefulSet that another client made meanwhile is left alone.
func TestAnotherStatefulSet(t *testing.T) {
	c := cluster()
	if err := once(t.Context(), killedAfter(c, 4)); err == nil { // deleted, and not created
		t.Fatal("no error")
	}
	other := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "other"}}
	if err := c.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	err := once(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "another client made it") {
		t.Errorf("%v", err)
	}
}
