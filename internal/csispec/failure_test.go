package csispec

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// EV-2: the words of a gRPC error are those of gRPC; another error keeps its own message.
func TestFailure(t *testing.T) {
	for name, tc := range map[string]struct {
		failure Failure
		final   bool
		words   string
		code    string
	}{
		"final":     {Failure{Code: codes.Internal, Message: "no"}, true, status.Error(codes.Internal, "no").Error(), "Internal"},
		"uncertain": {Failure{Code: codes.Aborted, Message: "no"}, false, status.Error(codes.Aborted, "no").Error(), "Aborted"},
		"exhausted": {Failure{Code: codes.ResourceExhausted}, false, status.Error(codes.ResourceExhausted, "").Error(), "ResourceExhausted"},
		"not sent":  {Failure{NoAnswer: true, Code: codes.Internal, Message: "no"}, false, status.Error(codes.Internal, "no").Error(), "Internal"},
		"no status": {Failure{NoAnswer: true, Message: "broken"}, false, "broken", "Unknown"},
	} {
		f := tc.failure
		if f.IsFinal() != tc.final || f.Words() != tc.words || f.CodeName() != tc.code {
			t.Errorf("%s: final %t, words %q, code %q", name, f.IsFinal(), f.Words(), f.CodeName())
		}
		if f.Answered(codes.Internal) != (name == "final") {
			t.Errorf("%s: Answered(Internal) is %t", name, f.Answered(codes.Internal))
		}
	}
}
