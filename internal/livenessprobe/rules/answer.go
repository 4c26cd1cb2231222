package rules

import (
	"fmt"
	"time"
)

// The codes of HTTP in the answers.
const (
	codeOK     = 200
	codeFailed = 500
	codeWait   = 503
)

// Driver is what the driver has said.
type Driver struct {
	Named   bool   // GetPluginInfo has answered
	Problem string // of the last GetPluginInfo, while it has not
	Ready   bool   // the answer of Probe; an answer without a value is true
	Failed  string // why Probe has no answer; empty if it has
}

// Answer returns the answer to GET /healthz (LP-12). Before the driver has said its name, upstream
// does not listen (LP-11), which a kubelet takes for a failure too; here the answer says what is
// missing (LP-H3).
func Answer(d Driver) (code int, text string) {
	switch {
	case !d.Named:
		return codeWait, "waiting for the csi driver to answer GetPluginInfo: " + d.Problem
	case d.Failed != "":
		return codeFailed, d.Failed
	case !d.Ready:
		return codeFailed, "driver responded but is not ready"
	}
	return codeOK, "ok"
}

// LateWarning returns a warning about callers that close their request before Probe has answered;
// empty without a reason for one. Each such check counts as failed for the kubelet, although the
// driver may answer within --probe-timeout (LP-H1).
func LateWarning(waited, timeout time.Duration) string {
	if waited >= timeout {
		return ""
	}
	return fmt.Sprintf("the caller closed the request after %s, before --probe-timeout=%s: set timeoutSeconds of the "+
		"livenessProbe above it", waited.Round(10*time.Millisecond), timeout)
}
