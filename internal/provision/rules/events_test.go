package provision

import (
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/purser-csi/purser/internal/csispec"
	"github.com/purser-csi/purser/internal/verdict"
)

// Reason and form of the message of upstream's events are contracts, which tools match.
func TestEventsAreUpstreams(t *testing.T) {
	request, _ := NewRequest(world())
	sent := CreateVolume{Request: request}
	last := func(v Verdict) verdict.Finding {
		for {
			d, acts := v.(do)
			if !acts {
				return v.Because()
			}
			v = d.Then
		}
	}
	for _, tc := range []struct {
		row     string
		finding verdict.Finding
		event   string
		message string
	}{
		{
			"EV-1 C-22", settled(world(), time.Time{}).Because(), "Provisioning",
			`External provisioner is provisioning volume for claim "crew/logbook"`,
		},
		{
			"EV-2 C-25 C-116 the driver's words alone", last(AfterCreate(world(), sent, Answer{Failure: &csispec.Failure{Code: codes.Internal, Message: "no such pool"}})),
			"ProvisioningFailed", "rpc error: code = Internal desc = no such pool",
		},
		{
			"EV-3 C-25 C-105", last(AfterCreate(world(), sent, Answer{Failure: &csispec.Failure{Code: codes.InvalidArgument, Message: "no such tier"}})),
			"ProvisioningFailed", "Volume provisioning failed with infeasible error. Retries will be delayed. rpc error: code = InvalidArgument desc = no such tier",
		},
		{
			"EV-2 a size that the driver cannot make", last(AfterCreate(world(), sent, Answer{Failure: &csispec.Failure{Code: codes.OutOfRange, Message: "at most 2Gi"}})),
			"ProvisioningFailed", "rpc error: code = OutOfRange desc = at most 2Gi. Delete the claim and create it with a size that the driver can make: the size of a claim without a volume cannot change",
		},
		{
			"EV-5", last(AfterCreate(world(), sent, Answer{Volume: &csi.Volume{VolumeId: "h"}})),
			"ProvisioningSucceeded", "Successfully provisioned volume " + pvName,
		},
	} {
		t.Run(tc.row, func(t *testing.T) {
			if got := verdict.Describe(tc.finding.Reason).Event; got != tc.event {
				t.Errorf("event %q, want %q", got, tc.event)
			}
			if got := tc.finding.Text(); got != tc.message {
				t.Errorf("message %q, want %q", got, tc.message)
			}
		})
	}
}
