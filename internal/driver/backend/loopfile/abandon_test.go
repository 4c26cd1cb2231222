package loopfile

import (
	"testing"

	"golang.org/x/sys/unix"
)

// The driver was killed and its folder is removed by another program.
func TestDevicesOfARemovedDriverAreDetached(t *testing.T) {
	r := newRig(t)
	c := mountOf("")
	mounted, block := r.create(request("mounted", c, 16*mebi)), r.create(request("block", blockAccess, mebi))
	at, device := r.stage(mounted.ID, c), r.stage(block.ID, blockAccess)
	for _, device := range r.devices {
		_ = device.Release()
	}
	if detached, err := DetachBelow(t.Context(), r.dir); err != nil || len(detached) != 1 || detached[0] != device {
		t.Errorf("DetachBelow = %q, %v, want %s and not what is mounted", detached, err, device)
	}
	if err := unix.Unmount(at, 0); err != nil {
		t.Fatal(err)
	}
	r.wantNoDevices()
}
