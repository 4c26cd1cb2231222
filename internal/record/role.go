package record

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/purser-csi/purser/internal/life"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Role reads the spans of a role of Purser from its HTTP endpoint.
type Role struct {
	endpoint string
	instance string
	next     uint64
	silent   bool // it did not answer last time
}

// NewRole returns the role at an address such as http://127.0.0.1:8080.
func NewRole(endpoint string) *Role { return &Role{endpoint: strings.TrimSuffix(endpoint, "/")} }

// Read writes the spans since the last read. Spans that the role does not keep any more, and a role
// that does not answer, are noted in the record.
func (r *Role) Read(ctx context.Context, w *Writer) {
	answer, err := r.ask(ctx)
	if err == nil && answer.Instance != r.instance { // it was restarted: its spans begin anew
		r.instance, r.next = answer.Instance, 0
		answer, err = r.ask(ctx)
	}
	if err != nil {
		if !r.silent {
			w.Note(fmt.Sprintf("%s: %v", r.endpoint, err))
		}
		r.silent = true
		return
	}
	r.silent, r.next = false, answer.Next
	if answer.Lost > 0 {
		w.Note(fmt.Sprintf("%s: %d spans are not kept any more", r.endpoint, answer.Lost))
	}
	for _, span := range answer.Spans {
		w.Call(life.Call(span))
	}
}

// mostOfAnswer bounds what is read of an endpoint.
const mostOfAnswer = 16 << 20

func (r *Role) ask(ctx context.Context) (a telemetry.SpansAnswer, err error) {
	url := fmt.Sprintf("%s%s?after=%d", r.endpoint, telemetry.PathSpans, r.next)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return a, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return a, fmt.Errorf("%s: it has no spans", response.Status)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, mostOfAnswer)).Decode(&a); err != nil {
		return a, err
	}
	if a.Schema != telemetry.SpansSchema {
		return a, fmt.Errorf("schema %q: this program reads %s", a.Schema, telemetry.SpansSchema)
	}
	return a, nil
}
