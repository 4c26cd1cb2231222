package protection

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	protection "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/internal/verdict"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// A finalizer is removed by a patch with the preconditions that the object needs: a volume that no
// other client may have changed is written under its resourceVersion.
func TestDropping(t *testing.T) {
	going := func(finalizers ...string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "o", UID: "u", ResourceVersion: "7", Finalizers: finalizers, DeletionTimestamp: new(metav1.Unix(1000, 0))}
	}
	volume := func(phase corev1.PersistentVolumePhase, finalizers ...string) client.Object {
		return &corev1.PersistentVolume{ObjectMeta: going(finalizers...), Status: corev1.PersistentVolumeStatus{Phase: phase}}
	}
	const protects = names.FinalizerPVProtection
	for _, tc := range []struct {
		name      string
		object    client.Object
		unchanged bool
	}{
		{"claim", &corev1.PersistentVolumeClaim{ObjectMeta: going(protects)}, false},
		{"claim with another finalizer", &corev1.PersistentVolumeClaim{ObjectMeta: going(protects, "x/y")}, false},
		{"released volume", volume(corev1.VolumeReleased, protects), true},
		{"failed volume", volume(corev1.VolumeFailed, protects), true},
		{"released volume with its provisioner's", volume(corev1.VolumeReleased, names.FinalizerVolume, protects), false},
		{"released volume with another finalizer", volume(corev1.VolumeReleased, protects, "x/y"), false},
		{"volume that a claim may take", volume(corev1.VolumeAvailable, protects), true},
	} {
		drop := protection.DropFinalizer{}
		if pv, ok := tc.object.(*corev1.PersistentVolume); ok {
			drop = protection.DecideVolume(protection.Volume{Object: pv}, time.Unix(1000, 0)).(verdict.Do[action]).Actions[0].(protection.DropFinalizer)
		}
		patch := finalizer{name: protects}.dropping(tc.object, drop)
		data, err := patch.Data(tc.object)
		if err != nil {
			t.Fatal(err)
		}
		if unchanged := strings.Contains(string(data), `"resourceVersion":"7"`); unchanged != tc.unchanged {
			t.Errorf("%s: only if unchanged %t, want %t: %s", tc.name, unchanged, tc.unchanged, data)
		}
	}
}

// stuck is a cache that gets no news.
type stuck struct {
	client.Reader
	claim *corev1.PersistentVolumeClaim
}

func (s stuck) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.claim.DeepCopyInto(into.(*corev1.PersistentVolumeClaim))
	return nil
}

func (stuck) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// 8.30: no finalizer can be added to a terminating object, so that a cached object that still has it is
// stale. A second patch would only cost the API server a write.
func TestFinalizerIsNotRemovedTwice(t *testing.T) {
	for name, finalizers := range map[string][]string{
		"the last one": {names.FinalizerPVCProtection}, "another one stays": {names.FinalizerPVCProtection, "x/y"},
	} {
		api := apiserver.New().Client()
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", Finalizers: finalizers}}
		if err := errors.Join(api.Create(t.Context(), claim), api.Delete(t.Context(), claim)); err != nil {
			t.Fatal(err)
		}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			t.Fatal(err)
		}
		cached := kube.NewOverlay(stuck{claim: claim}, clocktesting.NewFakeClock(time.Unix(1000, 0)))
		cached.Fed(claim)
		c := NewClaims(Config{Cached: cached, Writer: cached.Recording(api)})
		if _, err := c.Apply(t.Context(), protection.Claim{Object: claim}, protection.DropFinalizer{}); err != nil {
			t.Fatal(err)
		}
		s, err := c.Gather(t.Context(), keyOf(claim))
		_, acts := c.Decide(s, time.Unix(1000, 0)).(verdict.Do[action])
		if acts || err != nil {
			t.Errorf("%s: removed again: %+v, %v", name, s.Object, err)
		}
	}
}
