package reconcile

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/purser-csi/purser/internal/verdict"
)

// Recorder writes events.
type Recorder interface {
	Event(object runtime.Object, eventType, reason, message string)
}

// preciseRecorder is a recorder that stores the reason of the decision beside that of the event, which
// several decisions may share.
type preciseRecorder interface {
	EventOf(decided string, object runtime.Object, eventType, reason, message string)
}

// Emit emits the event of a decision.
func Emit(r Recorder, decided verdict.Reason, object runtime.Object, eventType, reason, message string) {
	if precise, is := r.(preciseRecorder); is {
		precise.EventOf(string(decided), object, eventType, reason, message)
		return
	}
	r.Event(object, eventType, reason, message)
}
