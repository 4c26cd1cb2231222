package loopdev

import (
	"bytes"
	"os"
	"testing"
)

// Raw block writes that a pod did not sync are in the image after the device is
// detached, also when this process is the only one that has it open: clearing a
// loop device is no last close, and the kernel flushes at a last close only.
func TestDetachKeepsUnsyncedWrites(t *testing.T) {
	mayLoop(t)
	const size = 8 << 20
	path := newImage(t, "image", size)
	device := attach(t, path)
	wrote := bytes.Repeat([]byte("not synced "), 4<<20/11)
	node, err := os.OpenFile(device.Path(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := node.WriteAt(wrote, 1<<20); err != nil {
		t.Fatal(err)
	}
	// Closed while the device is held, as when a pod ends: no last close either.
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	if err := device.Detach(); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := image[1<<20 : 1<<20+len(wrote)]; !bytes.Equal(got, wrote) {
		t.Error("the image does not have what was written to the device")
	}
}
