package process

import (
	"fmt"
	"strings"
)

// Exit says how a child ended. It is an error unless the caller asked the child to end.
type Exit struct {
	Name  string
	State string   // such as "exit status 1" or "signal: killed"
	Log   string   // the whole log
	Tail  []string // its last lines

	tailErr error
}

// Error names the child, its end, the end of its log and where the rest is.
func (e *Exit) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s ended: %s; log: %s", e.Name, e.State, e.Log)
	if e.tailErr != nil {
		fmt.Fprintf(&b, " (unreadable: %v)", e.tailErr)
	}
	for _, line := range e.Tail {
		fmt.Fprintf(&b, "\n    %s", line)
	}
	return b.String()
}

// Unwrap is the failure to read the log, if there was one.
func (e *Exit) Unwrap() error { return e.tailErr }
