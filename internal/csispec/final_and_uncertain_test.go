package csispec

import (
	"testing"

	"google.golang.org/grpc/codes"
)

// C-40 to C-43, RZ-C1: each code of gRPC is in one row.
func TestCodes(t *testing.T) {
	type row struct{ uncertain, orExhausted, mayLeave bool }
	want := map[codes.Code]row{
		codes.Canceled:         {uncertain: true, orExhausted: true},
		codes.DeadlineExceeded: {uncertain: true, orExhausted: true},
		codes.Aborted:          {uncertain: true, orExhausted: true},
		codes.Unavailable:      {uncertain: true, orExhausted: true},

		codes.ResourceExhausted: {orExhausted: true},

		codes.Unknown:  {mayLeave: true},
		codes.Internal: {mayLeave: true},
		codes.DataLoss: {mayLeave: true},

		codes.InvalidArgument:    {},
		codes.NotFound:           {},
		codes.AlreadyExists:      {},
		codes.PermissionDenied:   {},
		codes.FailedPrecondition: {},
		codes.OutOfRange:         {},
		codes.Unimplemented:      {},
		codes.Unauthenticated:    {},
	}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		expected, ok := want[code]
		if !ok {
			t.Errorf("no row for %s", code)
		}
		if got := (row{IsUncertain(code), IsUncertainOrExhausted(code), MayLeaveVolume(code)}); got != expected {
			t.Errorf("%s: %+v, want %+v", code, got, expected)
		}
	}
}
