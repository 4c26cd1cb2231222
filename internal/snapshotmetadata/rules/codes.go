package rules

import "google.golang.org/grpc/codes"

// OfDriver returns the refusal for an error of the driver. Its code is passed on, since the client
// decides by it whether to resume; a code that says nothing becomes INTERNAL (CB-15, CB-16).
func OfDriver(code codes.Code, text string) *Refusal {
	if code == codes.Unknown {
		code = codes.Internal
	}
	return refuse(code, "failed to get response from CSI driver: %s", text)
}

// NotReady refuses requests until the driver is ready.
func NotReady() *Refusal { return refuse(codes.Unavailable, "the CSI driver is not yet ready") }

// Busy refuses a client that would wait too long for the reviews of others.
func Busy() *Refusal {
	return refuse(codes.ResourceExhausted, "too many clients wait for the review of their tokens; try again later")
}

// TooMany refuses a stream beyond the limits.
func TooMany(most int, whose string) *Refusal {
	return refuse(codes.ResourceExhausted, "%s has %d streams open; try again when one has ended", whose, most)
}
