package reclaim

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
)

// sameHandle is a released volume with the same handle as [releasedVolume], changed by edits.
func sameHandle(edits ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	pv := releasedVolume(edits...)
	pv.Name, pv.UID = "same-handle", "v"
	return pv
}

// D-16, D-37: a volume is attached if a VolumeAttachment names any PersistentVolume with its
// handle, and the deletion of that VolumeAttachment enqueues all of them.
func TestAttachedSameHandle(t *testing.T) {
	held := attachment("1", "same-handle")
	r := newRig(nil, releasedVolume(), sameHandle(), held)
	if again := r.run(t); again != 0 || len(r.driver.deleted) > 0 || !strings.Contains(strings.Join(r.events, " "), "still attached to node node-1") {
		t.Errorf("again in %s, called %d times, events %q", again, len(r.driver.deleted), r.events)
	}
	if got := r.fromAttachment(t.Context(), held); !slices.Equal(got, []string{"same-handle", "pv"}) {
		t.Errorf("the end of the attachment enqueues %q", got)
	}
	if err := r.api.Delete(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	if r.run(t); len(r.driver.deleted) != 1 {
		t.Errorf("called %d times when it is detached", len(r.driver.deleted))
	}
}

// D-37, U-7: a volume that this process wrote a moment ago counts, though no watch has shown it.
func TestSameHandleWithoutAWatch(t *testing.T) {
	r := newRig(nil, releasedVolume())
	other := sameHandle(phase(corev1.VolumeBound), func(pv *corev1.PersistentVolume) { pv.ResourceVersion = "" })
	cached := newRig(nil, releasedVolume()).api
	if err := r.api.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	r.Cached = fed(cached)
	other.ResourceVersion = "1000000"
	r.Cached.Wrote(other)
	if r.run(t); len(r.driver.deleted) > 0 || !strings.Contains(strings.Join(r.events, " "), `"same-handle"`) {
		t.Errorf("called %d times, events %q", len(r.driver.deleted), r.events)
	}
	if all, err := r.Sharing(t.Context(), "h"); err != nil || len(all) != 2 {
		t.Errorf("%d share the handle, %v", len(all), err)
	}
}

// N-9, D-37: of the nodes that share a backend one has a PersistentVolume with the handle of a volume
// that another one is to delete.
func TestSameHandleOfAnotherNode(t *testing.T) {
	r := newRig(nil)
	for _, pv := range []*corev1.PersistentVolume{releasedVolume(), sameHandle(phase(corev1.VolumeBound))} {
		if err := r.api.Create(t.Context(), pv); err != nil {
			t.Fatal(err)
		}
	}
	isHere := func(pv *corev1.PersistentVolume) bool { return pv.Name == "pv" }
	r.AllVolumes = r.api
	r.Live, r.Cached = kube.SomeVolumes(r.api, isHere), over(kube.SomeVolumes(r.api, isHere))
	if r.run(t); len(r.driver.deleted) > 0 || !strings.Contains(strings.Join(r.events, " "), `"same-handle"`) {
		t.Errorf("called %d times, events %q", len(r.driver.deleted), r.events)
	}
	if all, err := r.Sharing(t.Context(), "h"); err != nil || len(all) != 2 {
		t.Errorf("%d share the handle, %v", len(all), err)
	}
}

// overlapping deletes another volume while it deletes one.
type overlapping struct {
	csi.ControllerClient
	meanwhile func()
	deleted   int
}

func (o *overlapping) DeleteVolume(context.Context, *csi.DeleteVolumeRequest, ...grpc.CallOption) (*csi.DeleteVolumeResponse, error) {
	if o.deleted++; o.deleted == 1 {
		o.meanwhile()
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// I7, D-37: no two calls for one handle at once, whichever PersistentVolumes they are for.
func TestOneCallForAHandleAtATime(t *testing.T) {
	r := newRig(nil, releasedVolume(), sameHandle())
	o := &overlapping{}
	o.meanwhile = func() {
		if result, err := r.Loop().Reconcile(t.Context(), "same-handle"); err != nil || result.RequeueAfter == 0 || o.deleted != 1 {
			t.Errorf("meanwhile: %+v, %v, %d calls", result, err, o.deleted)
		}
	}
	r.CSI = o
	if r.run(t); o.deleted != 1 {
		t.Errorf("%d calls", o.deleted)
	}
	if err := r.api.Get(t.Context(), client.ObjectKey{Name: "same-handle"}, &corev1.PersistentVolume{}); err != nil {
		t.Errorf("the other one: %v", err)
	}
}
