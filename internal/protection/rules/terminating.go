package protection

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

// TellAfter is how long an object is terminating before an event says what it waits for: its users
// are usually deleted together with it, and take a while to end.
const TellAfter = time.Minute

// lookAgain is the time after which the event is emitted again, since the API server drops old events.
const lookAgain = 31 * time.Minute

// awaitUsers waits for the users of a terminating object: without an event at first, with one when it
// takes long.
func awaitUsers(o metav1.Object, quiet, loud verdict.Finding, now time.Time) Verdict {
	if tell := o.GetDeletionTimestamp().Add(TellAfter); now.Before(tell) {
		return wait{Finding: quiet, Until: tell}
	}
	return wait{Finding: loud, Until: now.Add(lookAgain)}
}

// heldByOthers returns the verdict on a terminating object that only foreign finalizers keep (8.26).
func heldByOthers(o metav1.Object, quiet, loud verdict.Reason, what string, now time.Time) Verdict {
	if len(o.GetFinalizers()) == 0 {
		return idle(quiet, "the "+what+" is being deleted and nothing holds it")
	}
	message := fmt.Sprintf(
		"the %s is being deleted and nothing uses it; it waits for who put these finalizers on it: %s",
		what,
		strings.Join(o.GetFinalizers(), ", "),
	)
	return awaitUsers(o, finding(quiet, message), finding(loud, message), now)
}
