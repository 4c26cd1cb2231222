package ceph

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/e2e/stage"
)

func TestRBD(t *testing.T) { live(t, rbd) }

func TestCephFS(t *testing.T) { live(t, cephfs) }

// live plays the life of volumes with `purser up` on ceph-csi, and kills in CreateVolume.
func live(t *testing.T, k kind) {
	r := newRig(t)
	d := r.startDriver(k)
	up := r.up(d)
	p := play{rig: r, api: up.Client, driver: d, snapshots: true}
	p.classes()

	first := p.claim("first", small, nil)
	p.awaitBound(small, first)
	p.wantNoLeak(1)
	if k.mounts {
		p.use(up, first, func(folder string) {
			p.must(os.WriteFile(filepath.Join(folder, "entries"), []byte("day one"), 0o600))
		})
	}
	p.expand(first, large)
	clone := p.claim("clone", large, &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: first.Name})
	p.awaitBound(large, clone)
	taken := p.snapshot("taken", first)
	group := snapshotv1.GroupName
	restored := p.claim("restored", large, &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "VolumeSnapshot", Name: taken.Name})
	p.awaitBound(large, restored)
	if k.mounts {
		p.wantNoLeak(3)
		for _, copied := range []*corev1.PersistentVolumeClaim{clone, restored} {
			p.use(up, copied, func(folder string) {
				if content, err := os.ReadFile(filepath.Join(folder, "entries")); string(content) != "day one" {
					p.Errorf("%s has %q, %v", copied.Name, content, err)
				}
			})
		}
	} else {
		p.wantNoLeak(4) // the snapshot is an image
	}
	p.remove(restored, taken, clone, first)
	p.wantNothing()

	p.kills(up)
}

// kills has `up` killed, and then ceph-csi, while CreateVolume is in flight. The next one finds or
// repeats each volume, and there is exactly one for each claim.
func (p play) kills(up *stage.Stage) {
	p.Helper()
	kept, dropped := p.amid(func() []*corev1.PersistentVolumeClaim {
		return []*corev1.PersistentVolumeClaim{p.claim("kept", small, nil), p.claim("dropped", small, nil)}
	}, up.Kill)
	p.api = p.up(p.driver).Client
	p.must(p.api.Delete(p.Context(), dropped))
	p.awaitBound(small, kept)
	p.remove(dropped)
	p.wantNoLeak(1)

	again, other := p.amid(func() []*corev1.PersistentVolumeClaim {
		return []*corev1.PersistentVolumeClaim{p.claim("again", small, nil), p.claim("other", small, nil)}
	}, p.driver.Kill)
	p.must(p.api.Delete(p.Context(), other))
	p.driver.start()
	p.awaitBound(small, again)
	p.remove(other)
	p.wantNoLeak(2)
	p.remove(kept, again)
	p.wantNothing()
}

// amid creates two claims while Ceph does not answer, and kills when both calls are in flight. Then
// Ceph answers again.
func (p play) amid(create func() []*corev1.PersistentVolumeClaim, kill func()) (a, b *corev1.PersistentVolumeClaim) {
	p.Helper()
	p.must(p.ceph.Pause())
	defer func() { p.must(p.ceph.Resume()) }()
	claims := create()
	p.driver.awaitCall(volumeOf(claims[0]), volumeOf(claims[1]))
	kill()
	return claims[0], claims[1]
}

// up starts `purser up` on the driver, until the test ends.
func (r *rig) up(d *driver) *stage.Stage {
	r.Helper()
	s, err := stage.Start(r.Context(), stage.Config{
		Bin: r.bin, DataDir: filepath.Join(r.data, "up"), Socket: d.socket,
		Args: []string{"--csi-address", "unix://" + d.socket, "--driver-timeout", "1m"},
	})
	r.must(err)
	r.Cleanup(func() {
		select {
		case <-s.Ended():
		default:
			if err := s.Stop(); err != nil {
				r.Error(err)
			}
		}
	})
	return s
}

// expand asks for a larger size and waits until the claim has it.
func (p play) expand(claim *corev1.PersistentVolumeClaim, size string) {
	p.Helper()
	before := claim.DeepCopy()
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size)
	p.must(p.api.Patch(p.Context(), claim, client.MergeFrom(before)))
	p.awaitBound(size, claim)
}

// use mounts a claim for a pod, as a kubelet does, and calls act with the folder.
func (p play) use(up *stage.Stage, claim *corev1.PersistentVolumeClaim, act func(folder string)) {
	p.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOfTests, Name: "uses-" + claim.Name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "one", Image: "none", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
			}}},
		},
	}
	p.must(p.api.Create(p.Context(), pod))
	folder := filepath.Join(up.DataDir, "pods", string(pod.UID), "volumes", "kubernetes.io~csi", volumeOf(claim), "mount")
	p.eventually("pod "+pod.Name+" has its volume", func(ctx context.Context) error {
		err := p.api.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		for _, c := range pod.Status.Conditions {
			if c.Type == names.ConditionVolumesPublished && c.Status == corev1.ConditionTrue {
				return err
			}
		}
		return errors.Join(err, fmt.Errorf("not mounted: %v", p.events(ctx, pod)))
	})
	act(folder)
	p.remove(pod)
}
