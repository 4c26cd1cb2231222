package calls

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestOneCallForAVolume(t *testing.T) {
	var c Calls
	end, err := c.Begin("CreateVolume", "v")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Begin("DeleteVolume", "v"); status.Code(err) != codes.Aborted || status.Convert(err).Message() != "CreateVolume of volume v is under way" {
		t.Errorf("a second call for the volume: %v", err)
	}
	if other, err := c.Begin("DeleteVolume", "w"); err != nil {
		t.Errorf("a call for another volume: %v", err)
	} else {
		other()
	}
	end()
	if _, err := c.Begin("DeleteVolume", "v"); err != nil {
		t.Errorf("the next call: %v", err)
	}
}
