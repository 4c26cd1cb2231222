package rules

import "time"

// Kubelet is what the kubelet has done about the socket that is published now.
type Kubelet struct {
	Published  time.Time // zero for nothing
	Asked      time.Time // the last GetInfo; zero for none
	Answered   bool      // NotifyRegistrationStatus was called since
	Registered bool      // its last value
	Refusal    string    // its last error; empty once the driver is registered
	Refusals   int       // in a row
}

const (
	// askedWithin is how long the kubelet may take to see a socket.
	askedWithin = 30 * time.Second
	// answeredWithin is the kubelet's timeout of NodeGetInfo, and a little (NR-13).
	answeredWithin = 2*time.Minute + 10*time.Second
)

// WasAsked returns the state after GetInfo.
func (k Kubelet) WasAsked(at time.Time) Kubelet {
	k.Asked = at
	return k
}

// WasNotified returns the state after NotifyRegistrationStatus.
func (k Kubelet) WasNotified(registered bool, refusal string) Kubelet {
	k.Answered, k.Registered = true, registered
	if registered {
		k.Refusal, k.Refusals = "", 0
		return k
	}
	if refusal == "" {
		refusal = "it gives no reason"
	}
	k.Refusal, k.Refusals = refusal, k.Refusals+1
	return k
}

// Problem returns why the driver is not registered; empty when it is.
func (k Kubelet) Problem(now time.Time) string {
	switch {
	case k.Published.IsZero():
		return "nothing is published for the kubelet yet"
	case k.Registered:
		return ""
	case k.Refusal != "":
		return "the kubelet refused the driver: " + k.Refusal
	case k.Asked.IsZero() && now.Sub(k.Published) > askedWithin:
		return "the kubelet has not asked yet; does it watch this folder, and see the socket in it?"
	case k.Asked.IsZero():
		return "the kubelet has not asked yet"
	case now.Sub(k.Asked) > answeredWithin:
		return "the kubelet has asked and does not answer; can it reach the socket of --kubelet-registration-path?"
	default:
		return "the kubelet has asked, and has not answered yet"
	}
}

// IsNews reports whether a refusal is worth an event: a new text, or each doubling of the number of
// refusals in a row, since the kubelet retries without end.
func IsNews(before, after Kubelet) bool {
	if after.Refusal == "" {
		return false
	}
	return before.Refusal != after.Refusal || after.Refusals&(after.Refusals-1) == 0
}
