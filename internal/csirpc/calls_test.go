package csirpc

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestOneCallForAVolume(t *testing.T) {
	var c VolumeLocks
	end, err := c.Begin("CreateVolume", "v", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Begin("DeleteVolume", "v", ""); status.Code(err) != codes.Aborted || status.Convert(err).Message() != "CreateVolume of volume v is under way" {
		t.Errorf("a second call for the volume: %v", err)
	}
	if other, err := c.Begin("DeleteVolume", "w", ""); err != nil {
		t.Errorf("a call for another volume: %v", err)
	} else {
		other()
	}
	end()
	if _, err := c.Begin("DeleteVolume", "v", ""); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// I7, D-37: two PersistentVolumes can have one handle.
func TestOneCallForAHandle(t *testing.T) {
	var c VolumeLocks
	end, err := c.Begin("DeleteVolume", "v", "h")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Begin("DeleteVolume", "w", "h"); status.Code(err) != codes.Aborted {
		t.Errorf("a second call for the handle: %v", err)
	}
	for _, tc := range [][2]string{{"w", "i"}, {"h", ""}, {"x", "v"}} { // names and handles are not compared with each other
		if other, err := c.Begin("DeleteVolume", tc[0], tc[1]); err != nil {
			t.Errorf("a call for another volume %q: %v", tc, err)
		} else {
			other()
		}
	}
	end()
	if _, err := c.Begin("DeleteVolume", "w", "h"); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// D-37: a volume that the driver has answered with is not deleted, and one that is being deleted is
// no answer. Two may be answered with one.
func TestLockHandle(t *testing.T) {
	var c VolumeLocks
	end, err := c.LockHandle("v", "h")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Begin("DeleteVolume", "w", "h"); status.Code(err) != codes.Aborted {
		t.Errorf("a deletion: %v", err)
	}
	again, err := c.Begin("CreateVolume", "v", "")
	if err != nil {
		t.Fatalf("the call again: %v", err)
	}
	again()
	another, err := c.LockHandle("w", "h")
	if err != nil {
		t.Fatalf("another answer: %v", err)
	}
	nothing, err := c.LockHandle("x", "")
	if err != nil {
		t.Fatalf("an answer without a handle: %v", err)
	}
	nothing()
	end()
	another()
	if end, err = c.Begin("DeleteVolume", "w", "h"); err != nil {
		t.Fatalf("a deletion afterwards: %v", err)
	}
	if _, err := c.LockHandle("v", "h"); status.Code(err) != codes.Aborted {
		t.Errorf("an answer while it is deleted: %v", err)
	}
	if _, err := c.LockHandle("w", "i"); err != nil {
		t.Errorf("an answer with another volume: %v", err)
	}
	end()
	if _, err := c.LockHandle("v", "h"); err != nil {
		t.Errorf("an answer afterwards: %v", err)
	}
}
