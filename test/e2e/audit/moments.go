package audit

import (
	"io"
	"net/http"
	"slices"
	"time"
)

// Moments are points in time, in ascending order.
type Moments []time.Time

// Span is the time from the first to the last.
func (m Moments) Span() time.Duration {
	if len(m) == 0 {
		return 0
	}
	return m[len(m)-1].Sub(m[0])
}

// Firsts returns the time of the first successful request of one kind for each object.
func Firsts(log io.Reader, kind Request) (Moments, error) {
	type object struct{ namespace, name string }
	seen := map[object]time.Time{}
	err := each(log, func(l line) {
		o := object{l.Object.Namespace, l.Object.Name}
		if _, again := seen[o]; again || l.request() != kind || l.Response.Code >= http.StatusBadRequest {
			return
		}
		seen[o] = l.At
	})
	moments := make(Moments, 0, len(seen))
	for _, at := range seen {
		moments = append(moments, at)
	}
	slices.SortFunc(moments, time.Time.Compare)
	return moments, err
}
