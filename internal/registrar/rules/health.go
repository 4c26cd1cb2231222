package rules

import "fmt"

// The codes of HTTP in the answers.
const (
	codeOK       = 200
	codeNotFound = 404
	codeFailed   = 500
)

// Check is what a health check has found.
type Check struct {
	Published Published
	Step      Step   // the last one
	Socket    Socket // at the path
	Name      string // in the answer to GetInfo at the socket
	Failed    string // why GetInfo has no answer; empty if it has
	Kubelet   string // [Kubelet.Problem]
}

// Health returns the answer to GET /healthz (NR-14). Upstream ends when the kubelet refuses the
// driver, and the restart is all that is seen; this process goes on, and the text has the reason
// (NR-H4). A driver that has not answered yet is no reason for a restart of this container (NR-H5).
func Health(c Check) (code int, text string) {
	switch {
	case c.Published.Name == "":
		return codeOK, "ok: " + c.Step.Problem
	case c.Socket == SocketAbsent:
		return codeNotFound, "registration socket does not exist"
	case c.Failed != "":
		return codeFailed, "GetInfo of the registration socket: " + c.Failed
	case c.Name != c.Published.Name:
		return codeFailed, fmt.Sprintf(
			"the registration socket is that of driver %q, not of %q", c.Name, c.Published.Name)
	case c.Step.Problem != "":
		return codeOK, "ok: " + c.Step.Problem
	case c.Kubelet != "":
		return codeOK, "ok: " + c.Kubelet
	}
	return codeOK, "ok"
}

// Ready returns why the driver is not registered by this process or another one; empty if it is.
func Ready(c Check) string {
	switch {
	case c.Published.Name == "":
		return c.Step.Problem
	case c.Socket == SocketServed:
		return "" // the other process says the rest
	case c.Step.Problem != "":
		return c.Step.Problem
	}
	return c.Kubelet
}
