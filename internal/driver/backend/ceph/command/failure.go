package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// Failure is a tool that ended with a status other than 0. Its errno is found
// by errors.Is.
type Failure struct {
	// Doing is what was tried.
	Doing string
	// Errno is what the tool exited with.
	Errno unix.Errno
	// Said is what it printed, without keys.
	Said string
}

func (f *Failure) Error() string {
	if f.Said == "" {
		return fmt.Sprintf("%s: %s", f.Doing, f.Errno.Error())
	}
	return fmt.Sprintf("%s: %s (%s)", f.Doing, f.Said, f.Errno.Error())
}

// Unwrap is the errno.
func (f *Failure) Unwrap() error { return f.Errno }

// kindOf is what an errno means to a caller of the driver, unless the
// caller of the program knows better.
var kindOf = map[unix.Errno]fault.Kind{
	unix.ENOENT:    fault.NotFound,
	unix.EEXIST:    fault.Incompatible,
	unix.EBUSY:     fault.InUse,
	unix.ENOTEMPTY: fault.InUse,
	unix.EAGAIN:    fault.Busy,
	unix.ENOSPC:    fault.Exhausted,
	unix.EDQUOT:    fault.Exhausted,
	unix.EPERM:     fault.Forbidden,
	unix.EACCES:    fault.Forbidden,
	unix.ETIMEDOUT: fault.Away,
	unix.ENOTCONN:  fault.Away,
	unix.ESHUTDOWN: fault.Away,
}

// failed reads how a tool ended.
func (c Call) failed(status int, stderr []byte) error {
	said := c.Access.Key.redact(summary(stderr))
	f := &Failure{Doing: c.doing(), Errno: errnoOf(status, said), Said: said}
	switch f.Errno {
	case unix.ETIMEDOUT, unix.ENOTCONN:
		return fault.Away.Errorf(
			"cluster %q does not answer: %w; is it up, and are the monitors in %s right?",
			c.Access.Cluster,
			f,
			c.Access.Conf,
		)
	case unix.ESHUTDOWN:
		return fault.Away.Errorf(
			"cluster %q does not let this machine in any more: %w; it was fenced, `ceph osd blocklist ls` shows it",
			c.Access.Cluster,
			f,
		)
	case unix.EPERM, unix.EACCES:
		return c.refused(f)
	default:
		return kindOf[f.Errno].Errorf("%w", f)
	}
}

// refused distinguishes a user whom the cluster does not know from one who lacks the permission.
func (c Call) refused(f *Failure) error {
	if strings.Contains(f.Said, "connect") {
		return fault.Unidentified.Errorf(
			"cluster %q does not know user %q with this key: %w; compare userID and userKey of the secret with `ceph auth get-key client.%s`",
			c.Access.Cluster,
			c.Access.User,
			f,
			c.Access.User,
		)
	}
	return fault.Forbidden.Errorf(
		"cluster %q does not allow user %q to do this: %w; compare `ceph auth get client.%s` with what the documentation of the driver asks for",
		c.Access.Cluster,
		c.Access.User,
		f,
		c.Access.User,
	)
}

// errnoOf corrects a status of 1, which is that of the interpreter and of
// early failures, and not always "not permitted".
func errnoOf(status int, said string) unix.Errno {
	if status != int(unix.EPERM) {
		return unix.Errno(status)
	}
	switch {
	case strings.Contains(said, "not permitted"), strings.Contains(said, "EPERM"):
		return unix.EPERM
	case strings.Contains(said, "timed out"):
		return unix.ETIMEDOUT
	default:
		return unix.EIO
	}
}

// kept is how much of what a tool printed goes into an error.
const kept = 600

var (
	// stamp is what librados puts before its messages: time, thread, level.
	stamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\S+ \S+ +-?\d+ `)
	// progress is how the tools say how far they are.
	progress = regexp.MustCompile(`^.*\d+% complete\.\.\.`)
)

// summary makes one line of what a tool printed.
func summary(stderr []byte) string {
	var lines []string
	for line := range bytes.SplitSeq(stderr, []byte("\n")) {
		text := progress.ReplaceAllString(stamp.ReplaceAllString(strings.TrimSpace(string(line)), ""), "")
		if text != "" && (len(lines) == 0 || lines[len(lines)-1] != text) {
			lines = append(lines, text)
		}
	}
	text := strings.Join(lines, "; ")
	if len(text) > kept {
		text = "..." + text[len(text)-kept:]
	}
	return text
}

// ended says why a call was killed: because its caller was cancelled, or because
// its own timeout passed.
func (c Call) ended(caller context.Context, stderr []byte) error {
	said := c.Access.Key.redact(summary(stderr))
	if said != "" {
		said = " (" + said + ")"
	}
	if err := caller.Err(); err != nil {
		return fmt.Errorf("%s was stopped%s: %w", c.doing(), said, err)
	}
	return fault.Away.Errorf(
		"%s did not end within %s and was stopped%s; `ceph -s` says how cluster %q is",
		c.doing(),
		c.Patience,
		said,
		c.Access.Cluster,
	)
}

// Is says whether err is a tool's failure with this errno.
func Is(err error, errno unix.Errno) bool {
	f, ok := errors.AsType[*Failure](err)
	return ok && f.Errno == errno
}

// exitStatus is that of a process which ended by itself.
func exitStatus(state syscall.WaitStatus) (status int, exited bool) {
	return state.ExitStatus(), state.Exited()
}
