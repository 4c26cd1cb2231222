package calls

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestOneCallForAVolume(t *testing.T) {
	var c Calls
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
	var c Calls
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
