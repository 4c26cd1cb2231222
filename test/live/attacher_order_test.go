package live

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/rolestest"
)

// AT-H10: detaches that hang in the driver, even more than there are workers, do not delay an
// attach.
func TestAttachIsNotBehindSlowDetaches(t *testing.T) {
	p, d := attaching(t, "--worker-threads=2")
	var detached []*storagev1.VolumeAttachment
	for i := range 5 {
		va := p.attachment(fmt.Sprintf("slow-%d", i), d.name)
		await(p, "attached", va, isAttached)
		detached = append(detached, va)
	}
	slow := make(chan struct{})
	end := sync.OnceFunc(func() { close(slow) })
	defer end()
	d.at.Lock()
	d.slow = slow
	d.at.Unlock()
	for _, va := range detached {
		if err := p.user.Delete(t.Context(), va); err != nil {
			t.Fatal(err)
		}
	}
	rolestest.Eventually(t, "the driver has as many detaches as there are workers", func() error {
		if n := d.called("ControllerUnpublishVolume"); n != 2 {
			return fmt.Errorf("it has %d", n)
		}
		return nil
	})
	await(p, "attached while detaches hang", p.attachment("fast", d.name), isAttached)
	if n := d.called("ControllerUnpublishVolume"); n != 2 {
		t.Errorf("%d detaches are in flight, want no more than the workers", n)
	}
	end()
	for _, va := range detached {
		rolestest.Eventually(t, "the VolumeAttachment is gone", func() error { return p.gone(va) })
	}
}

// AT-H11: two VolumeAttachments attach an exclusive volume to two nodes at the same time. One is
// published. The status of the other says why it waits, and it is published when the first is gone.
func TestExclusiveVolumeIsPublishedToOneNode(t *testing.T) {
	p, d := attaching(t)
	p.node("second", "i-2", d.name)
	for round := range 5 {
		name := fmt.Sprintf("r%d", round)
		first := p.attachment(name, d.name) // creates the volume too
		second := first.DeepCopy()
		second.ObjectMeta = metav1Name(first.Name + "-second")
		second.Spec.NodeName = "second"
		p.create(second)
		both := []*storagev1.VolumeAttachment{first, second}
		var done, waits *storagev1.VolumeAttachment
		rolestest.Eventually(t, "one is attached, and the other one has an error", func() error {
			done, waits = nil, nil
			for _, va := range both {
				if err := p.user.Get(t.Context(), client.ObjectKeyFromObject(va), va); err != nil {
					return err
				}
				switch {
				case va.Status.Attached:
					done = va
				case va.Status.AttachError != nil:
					waits = va
				}
			}
			if done == nil || waits == nil {
				return errors.New("neither")
			}
			return nil
		})
		if len(waits.Finalizers) > 0 {
			t.Errorf("%s waits and has the finalizers %v", waits.Name, waits.Finalizers)
		}
		if err := p.user.Delete(t.Context(), done); err != nil {
			t.Fatal(err)
		}
		p.attachedWithoutError(waits)
	}
}
