package protection

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/core/verdict"
)

// TellAfter is how long an object that was deleted stays before people are told what it waits for:
// what holds it usually goes together with it, and takes a while to end.
const TellAfter = time.Minute

// lookAgain is after how long people are told again, since events are forgotten.
const lookAgain = 31 * time.Minute

// lingers waits for those who hold an object that is being deleted, and tells of them when it takes
// long.
func lingers(o metav1.Object, quiet, loud verdict.Finding, now time.Time) Verdict {
	if tell := o.GetDeletionTimestamp().Add(TellAfter); now.Before(tell) {
		return wait{Finding: quiet, Until: tell}
	}
	return wait{Finding: loud, Until: now.Add(lookAgain)}
}

// heldByOthers is about an object that goes as far as we are concerned (8.26).
func heldByOthers(o metav1.Object, quiet, loud verdict.Reason, what string, now time.Time) Verdict {
	if len(o.GetFinalizers()) == 0 {
		return idle(quiet, "the "+what+" is being deleted and nothing holds it")
	}
	message := fmt.Sprintf(
		"the %s is being deleted and nothing uses it; it waits for who put these finalizers on it: %s",
		what,
		strings.Join(o.GetFinalizers(), ", "),
	)
	return lingers(o, finding(quiet, message), finding(loud, message), now)
}
