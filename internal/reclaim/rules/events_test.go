package reclaim

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/purser-csi/purser/internal/csispec"
	"github.com/purser-csi/purser/internal/verdict"
)

// Reason and form of the message of upstream's events are contracts, which tools match.
func TestEventsAreUpstreams(t *testing.T) {
	failed := AfterDelete(DeleteVolume{Handle: "h"}, csispec.Failure{Code: codes.Internal, Message: "disk is on fire"}).Because()
	if got := verdict.Describe(failed.Reason); got.Event != "VolumeFailedDelete" || got.Severity != verdict.Warning || failed.Text() != `deleting volume "h": rpc error: code = Internal desc = disk is on fire` {
		t.Errorf("EV-7: %+v %q", got, failed.Text())
	}
	attached := decided(world(attached)).Because()
	if got := verdict.Describe(attached.Reason); got.Event != "VolumeDelete" || got.Severity != verdict.Normal ||
		attached.Text() != "persistentvolume pv is still attached to node n1" {
		t.Errorf("EV-8 C-112: %+v %q", got, attached.Text())
	}
}
