package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/e2e/leftover"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// floor is how fast a client is that watches nothing, decides nothing and makes only the writes that nobody can avoid: four to
// give a claim a volume, four to take it back.
type floor struct {
	claims             int
	created, deletedIn time.Duration
}

// floorShare is the part of the claims, 1 in so many, that the floor is measured with.
const floorShare = 5

const floorNamespace = "bench-floor"

// measureFloor holds the stock controllers still meanwhile, which would make the same writes.
func measureFloor(ctx context.Context, s *stage.Stage, l load) (f floor, err error) {
	f.claims = l.claims / floorShare
	if err := s.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: floorNamespace}}); err != nil {
		return f, fmt.Errorf("floor: %w", err)
	}
	resume, err := hold(s.DataDir, "kube-controller-manager")
	if err != nil {
		return f, fmt.Errorf("floor: %w", err)
	}
	defer func() { err = errors.Join(err, resume()) }()
	b := bare{api: s.Client, pairs: make([]pair, f.claims)}
	for _, part := range []struct {
		name string
		work func(context.Context, *pair) error
		took *time.Duration // nil for what users do
	}{
		{"claim", b.claim, nil},
		{"provision and bind", b.bind, &f.created},
		{"delete claim", b.giveUp, nil},
		{"reclaim", b.reclaim, &f.deletedIn},
	} {
		began := time.Now()
		for i := range b.pairs {
			b.pairs[i].number = i
		}
		if err := l.each(ctx, f.claims, func(ctx context.Context, i int) error { return part.work(ctx, &b.pairs[i]) }); err != nil {
			return f, fmt.Errorf("floor: %s: %w", part.name, err)
		}
		if part.took != nil {
			*part.took = time.Since(began)
		}
	}
	return f, nil
}

// hold stops a component of the cluster until it is resumed.
func hold(dir, name string) (resume func() error, err error) {
	processes, err := leftover.Processes(dir)
	if err != nil {
		return nil, err
	}
	for _, p := range processes {
		program, _, _ := strings.Cut(p.Command, " ")
		if strings.HasSuffix(program, "/"+name) {
			return func() error { return syscall.Kill(p.Pid, syscall.SIGCONT) }, syscall.Kill(p.Pid, syscall.SIGSTOP)
		}
	}
	return nil, fmt.Errorf("%s does not run", name)
}

// bare makes the writes.
type bare struct {
	api   client.Client
	pairs []pair
}

// pair is a claim and its volume.
type pair struct {
	number int
	claim  *corev1.PersistentVolumeClaim
	pv     *corev1.PersistentVolume
}

func (b bare) claim(ctx context.Context, p *pair) error {
	none := "floor" // a class that nobody serves
	p.claim = newClaim(floorNamespace, p.number)
	p.claim.Spec.StorageClassName = &none
	return b.api.Create(ctx, p.claim)
}

// bind is the four writes that binding needs. The claim's two wait for the volume's first, and the volume's second for nothing.
func (b bare) bind(ctx context.Context, p *pair) error {
	p.pv = newVolume(p.claim)
	if err := b.api.Create(ctx, p.pv); err != nil {
		return err
	}
	return b.complete(ctx, p)
}

// complete is what follows when the volume names the claim.
func (b bare) complete(ctx context.Context, p *pair) error {
	p.pv.Status.Phase = corev1.VolumeBound
	if err := b.api.Status().Update(ctx, p.pv); err != nil {
		return err
	}
	p.claim.Spec.VolumeName = p.pv.Name
	p.claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
	if err := b.api.Update(ctx, p.claim); err != nil {
		return err
	}
	p.claim.Status.Phase, p.claim.Status.AccessModes, p.claim.Status.Capacity = corev1.ClaimBound, p.claim.Spec.AccessModes, p.pv.Spec.Capacity
	return b.api.Status().Update(ctx, p.claim)
}

func newVolume(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-" + string(claim.UID), Finalizers: []string{"bench.purser/finalizer"},
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "floor.bench.purser"},
		},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, StorageClassName: *claim.Spec.StorageClassName,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name,
				UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "floor.bench.purser", VolumeHandle: string(claim.UID)},
			},
		},
	}
}

func (b bare) giveUp(ctx context.Context, p *pair) error { return b.api.Delete(ctx, p.claim) }

// reclaim is the four writes that deletion needs.
func (b bare) reclaim(ctx context.Context, p *pair) error {
	if err := b.api.Patch(ctx, p.claim, withoutFinalizers(p.claim.UID)); err != nil {
		return err
	}
	p.pv.Status.Phase = corev1.VolumeReleased
	if err := b.api.Status().Update(ctx, p.pv); err != nil {
		return err
	}
	if err := b.api.Delete(ctx, p.pv); err != nil {
		return err
	}
	return b.api.Patch(ctx, p.pv, withoutFinalizers(p.pv.UID))
}

func withoutFinalizers(uid types.UID) client.Patch {
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "finalizers": nil}})
	if err != nil {
		panic(err) // strings only
	}
	return client.RawPatch(types.MergePatchType, raw)
}
