package rules

import (
	"fmt"
	"path"
	"strings"
)

// Driver is what the driver has said of itself.
type Driver struct {
	Name    string // by GetPluginInfo; empty before the first answer
	Node    string // the answer of NodeGetInfo as text, to be compared; empty if it is not known
	Problem string // why the last GetPluginInfo has no answer that can be used; empty if it has
}

// Published is what this process has published; the zero value is nothing.
type Published struct {
	Name string // of the driver
	Node string // as [Driver.Node]; empty as long as it is not known
}

// Socket is what is at the path of the registration socket.
type Socket int

// The kinds of files at that path.
const (
	SocketAbsent  Socket = iota
	SocketOurs           // that of this process
	SocketServed         // of another process, which accepts connections
	SocketStale          // no process listens at it
	SocketNotOne         // a file that is no socket
	SocketUnknown        // the folder or the file cannot be read
)

// Action is what the registrar does next.
type Action int

// The actions.
const (
	Keep     Action = iota // nothing
	Publish                // a new socket takes the place of what is at the path
	Withdraw               // the own socket is removed
)

// State is what the next step is decided from.
type State struct {
	Driver    Driver
	Published Published
	Socket    Socket // at the path for the driver's name, or for the published one while the driver is silent
	Dir       string // of the registration sockets
	Stopping  bool
}

// Step is the next step of the registrar.
type Step struct {
	Action  Action
	Problem string // what keeps the driver from being published; empty for nothing
	Retry   bool   // the state is observed again after a backoff, and not only after a change
}

// Next returns the next step (NR-11 to NR-16, NR-H1 to NR-H5).
func Next(s State) Step {
	own := s.Published.Name != ""
	switch {
	case s.Stopping: // a socket of another process stays: it registers the same driver (NR-15, NR-H2)
		return Step{Action: when(own && s.Socket == SocketOurs, Withdraw)}
	case s.isSilent() && !own: // NR-H5: without a limit
		return Step{Problem: "waiting for the csi driver: " + s.Driver.Problem, Retry: true}
	case s.isSilent():
		// A driver that restarts is not taken out of the CSINode meanwhile (NR-16).
		return keptWithout(s)
	case s.Published.Name != s.Driver.Name && own: // NR-H1: the next step publishes the new name
		return Step{Action: Withdraw, Retry: true}
	}
	if problem := NameProblem(s.Dir, s.Driver.Name); problem != "" {
		return Step{Problem: problem, Retry: true}
	}
	return place(s, own)
}

// isSilent reports whether the driver does not answer.
func (s State) isSilent() bool { return s.Driver.Name == "" || s.Driver.Problem != "" }

// keptWithout is the step while the driver does not answer. A socket that was lost is made again:
// the kubelet tries until the driver answers.
func keptWithout(s State) Step {
	step := place(State{
		Driver:    Driver{Name: s.Published.Name, Node: s.Published.Node},
		Published: s.Published, Socket: s.Socket, Dir: s.Dir,
	}, true)
	step.Retry = true
	if step.Problem == "" {
		step.Problem = "the csi driver does not answer: " + s.Driver.Problem
	}
	return step
}

// place decides about the socket of a driver that answers.
func place(s State, own bool) Step {
	switch s.Socket {
	case SocketNotOne: // upstream ends (NR-11); the file of another program is not removed
		return Step{
			Problem: "there is a file that is no socket at " + Path(s.Dir, s.Driver.Name) + "; remove it", Retry: true,
		}
	case SocketUnknown:
		return Step{Problem: "the folder of the registration sockets cannot be read", Retry: true}
	case SocketServed:
		if own { // a newer instance of the pod: it registers the driver, and this one takes over when it ends
			return Step{Problem: "another process registers the driver at " + Path(s.Dir, s.Driver.Name), Retry: true}
		}
		return Step{Action: Publish} // the newest process wins, as with upstream
	case SocketOurs:
		changed := s.Published.Node != "" && s.Driver.Node != "" && s.Published.Node != s.Driver.Node
		return Step{Action: when(changed, Publish)} // NR-H1
	default: // absent or stale: NR-H2, NR-H3
		return Step{Action: Publish}
	}
}

// when returns the action if it is to be done.
func when(do bool, action Action) Action {
	if do {
		return action
	}
	return Keep
}

// MaxSocketPath is the kernel's limit (sockaddr_un.sun_path, less the final zero).
const MaxSocketPath = 107

// suffix is what upstream appends to the name of the driver (NR-10).
const suffix = "-reg.sock"

// Path returns where the kubelet finds the driver (NR-10).
func Path(dir, driver string) string { return path.Join(dir, driver+suffix) }

// maxName is the longest name of a driver that the CSI specification allows.
const maxName = 63

// NameProblem returns why a driver of this name cannot be registered; empty if it can. The name is
// that of a file in a folder of the kubelet, and it comes from another program.
func NameProblem(dir, name string) string {
	switch {
	case name == "": // NR-11
		return "the csi driver answers GetPluginInfo with an empty name"
	case len(name) > maxName:
		return fmt.Sprintf(
			"the name of the csi driver has %d bytes; the CSI specification allows %d", len(name), maxName,
		)
	case strings.HasPrefix(name, ".") || strings.ContainsFunc(name, isNotOfName):
		return fmt.Sprintf(
			"the name of the csi driver is %q; the CSI specification allows letters, digits, - and .", name,
		)
	case len(Path(dir, name)) > MaxSocketPath:
		return fmt.Sprintf(
			"the path %s has %d bytes, but the kernel allows %d for a socket; mount the folder at a shorter path",
			Path(dir, name), len(Path(dir, name)), MaxSocketPath,
		)
	}
	return ""
}

// isNotOfName reports whether a name of a driver cannot have the character. Underscores are not
// allowed by the specification, and the kubelet takes them.
func isNotOfName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_'
}
