package sim

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// outage is a time during which the API server refuses requests. Watches go on.
type outage struct {
	at     int // the operation with which it begins; 0 is never
	lasts  time.Duration
	of     requests
	reason metav1.StatusReason // "" when nothing answers
}

// requests are those that an outage is for.
type requests string

const (
	ofAll     requests = "all requests"
	ofReads   requests = "reads"
	ofWrites  requests = "writes"
	ofJournal requests = "writes of the journal"
)

func (r requests) include(read, journal bool) bool {
	switch r {
	case ofReads:
		return read
	case ofWrites:
		return !read
	case ofJournal:
		return !read && journal
	default:
		return true
	}
}

func (o outage) String() string {
	return fmt.Sprintf("from %d for %s %s end with %q", o.at, o.lasts, o.of, o.reason)
}

// error returns the error that a request gets during the outage.
func (o outage) error(text string) error {
	what, why := schema.GroupResource{Resource: "sims"}, errors.New("an outage")
	switch o.reason {
	case metav1.StatusReasonForbidden:
		return apierrors.NewForbidden(what, text, why)
	case metav1.StatusReasonConflict:
		return apierrors.NewConflict(what, text, why)
	case metav1.StatusReasonTimeout:
		return apierrors.NewTimeoutError(text, 0)
	default:
		return fmt.Errorf("%s: %w: connection refused", text, why)
	}
}

// outages is the family of outages of the API server, alone and combined with another fault.
func outages(calm result, _ extent) (all []schedule) {
	for n := 1; n <= calm.ops; n++ {
		for _, of := range []requests{ofAll, ofReads, ofWrites, ofJournal} {
			for _, reason := range []metav1.StatusReason{"", metav1.StatusReasonForbidden, metav1.StatusReasonTimeout, metav1.StatusReasonConflict} {
				if reason == metav1.StatusReasonConflict && of != ofWrites {
					continue
				}
				for _, lasts := range outageDurations {
					if reason == metav1.StatusReasonConflict && lasts > outageDurations[0] {
						continue
					}
					s := schedule{outage: outage{at: n, lasts: lasts, of: of, reason: reason}}
					deleted, classless, crashed := s, s, s
					deleted.deleteAt, classless.dropClassAt = n, n
					crashed.crashes, crashed.downFor, crashed.deleteWhileDown = []crash{{n + 1, before}}, briefly, true
					all = append(all, s, deleted, classless, crashed)
				}
			}
		}
	}
	return all
}

var outageDurations = []time.Duration{3 * time.Millisecond, 2 * time.Second, 25 * time.Second}

// refused returns the error of a request during the outage; nil at other times.
func (w *world) refused(text string, read, journal bool) error {
	o := w.schedule.outage
	began := w.operations.began(o.at)
	if began.IsZero() || time.Since(began) > o.lasts || !o.of.include(read, journal) {
		return nil
	}
	return o.error(text)
}
