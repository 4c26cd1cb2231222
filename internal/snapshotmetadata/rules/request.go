package rules

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Request is a request of a backup client.
type Request struct {
	Token      string // of the client's service account, for the audience of the service
	Namespace  string
	Snapshot   string // the name of the VolumeSnapshot
	IsDelta    bool
	Base       string // CSI handle of the snapshot that a delta begins at
	Offset     int64  // from where the blocks are wanted
	MaxResults int32  // blocks in one message at most; 0 for any number
}

// Refusal is the error of a request, with its gRPC code.
type Refusal struct {
	Code codes.Code
	Text string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Code.String() + ": " + r.Text }

func refuse(code codes.Code, format string, args ...any) *Refusal {
	return &Refusal{code, fmt.Sprintf(format, args...)}
}

// mostToken is above the size of every token of a service account.
const mostToken = 16 << 10

// CheckRequest refuses a request with a missing or impossible argument, before any request to the
// API server is made for it (CB-14, CB-15).
func CheckRequest(r Request) *Refusal {
	switch {
	case r.Token == "":
		return refuse(codes.InvalidArgument, "securityToken is missing")
	case r.Namespace == "":
		return refuse(codes.InvalidArgument, "namespace parameter cannot be empty")
	case r.IsDelta && r.Base == "":
		return refuse(codes.InvalidArgument, "baseSnapshotId cannot be empty")
	case r.IsDelta && r.Snapshot == "":
		return refuse(codes.InvalidArgument, "targetSnapshotName cannot be empty")
	case r.Snapshot == "":
		return refuse(codes.InvalidArgument, "snapshotName cannot be empty")
	case len(r.Token) > mostToken:
		return refuse(codes.InvalidArgument, "securityToken has %d bytes, more than any token", len(r.Token))
	case r.MaxResults < 0:
		return refuse(codes.InvalidArgument, "maxResults %d is negative", r.MaxResults)
	case r.Offset < 0:
		return refuse(codes.OutOfRange, "startingOffset %d is negative", r.Offset) // CB-16
	}
	if faults := validation.IsDNS1123Label(r.Namespace); len(faults) > 0 {
		return refuse(codes.InvalidArgument, "namespace %.64q: %s", r.Namespace, strings.Join(faults, "; "))
	}
	if faults := validation.IsDNS1123Subdomain(r.Snapshot); len(faults) > 0 {
		return refuse(codes.InvalidArgument, "snapshot %.256q: %s", r.Snapshot, strings.Join(faults, "; "))
	}
	return nil
}
