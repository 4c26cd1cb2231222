package explain

import (
	"regexp"
	"strings"
)

// rpcError finds the form in which sidecars and kubelet repeat a driver's error in events and
// status fields.
var rpcError = regexp.MustCompile(`rpc error: code = (\w+) desc = (?s:(.*))`)

// rpcCode returns the gRPC code and the driver's words of a message; code is "" if there is none.
func rpcCode(message string) (code, words string) {
	m := rpcError.FindStringSubmatch(message)
	if m == nil {
		return "", message
	}
	return m[1], strings.TrimSpace(m[2])
}

// driverAnswer is what a driver said, in which words, and who can remove its cause how.
type driverAnswer struct {
	code, words string
	isKnown     bool // the words are in driverErrors
	actor       Actor
	step        Step
}

// readAnswer reads a message that repeats a driver's error. The driver is empty where it is not
// known.
func readAnswer(driver, message string) driverAnswer {
	a := driverAnswer{}
	a.code, a.words = rpcCode(message)
	if known := knownError(driver, a.words); known != nil {
		a.isKnown, a.actor, a.step = true, known.actor, known.step()
		return a
	}
	actor, advice := rpcAdvice(a.code)
	a.actor, a.step = actor, Step{Text: advice}
	return a
}

// rpcAdvice returns who can remove the cause of a driver's error, and how. The CSI specification
// defines the codes of each call.
func rpcAdvice(code string) (Actor, string) {
	switch code {
	case "InvalidArgument":
		return Administrator, "The driver refuses a value of the request: check the parameters and mount options of " +
			"the StorageClass, and the claim's access modes and size"
	case "ResourceExhausted":
		return Administrator, "The backend has no room, or a limit of the node or the driver is reached: free space " +
			"or raise the limit, or use another class or node"
	case "OutOfRange":
		return User, "The driver cannot create a volume of this size: ask for a size within its limits"
	case "NotFound":
		return Administrator, "The driver does not find an object that the request names (volume, snapshot, node or " +
			"pool): compare the name in the message with the backend"
	case "AlreadyExists":
		return Administrator, "The backend has a volume of this name with other properties: it was created earlier; " +
			"check its data before you remove it"
	case "PermissionDenied", "Unauthenticated":
		return Administrator, "The backend does not accept the driver's credentials: check the secret that the " +
			"StorageClass or the PersistentVolume names"
	case "Unimplemented":
		return Vendor, "The driver does not have this call: ask for something else, or use another driver"
	case "DeadlineExceeded", "Unavailable", "Aborted":
		return Administrator, "The driver did not answer in time or was busy: is its controller pod running, and " +
			"does it reach its backend?"
	case "Internal", "Unknown":
		return Vendor, "The driver failed; its log has more than its message"
	case "FailedPrecondition":
		return Administrator, "The driver cannot do this in the present state of the volume; its message says why"
	}
	return Administrator, "Read the driver's message; its log has more"
}
