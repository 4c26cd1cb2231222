package record

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/purser-csi/purser/internal/life"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Role reads the spans of a role of Purser from its HTTP endpoint.
type Role struct {
	endpoint string
	instance string
	next     uint64
	silent   bool // it did not answer last time
	client   *http.Client
	patience time.Duration // bounds one read
}

// NewRole returns the role at an address such as http://127.0.0.1:8080, which the client reaches; nil for
// one without credentials. No redirect is followed.
func NewRole(endpoint string, client *http.Client) *Role {
	r := &Role{endpoint: strings.TrimSuffix(endpoint, "/"), client: &http.Client{}, patience: patienceWithRoles}
	if client != nil {
		r.client.Transport = client.Transport
	}
	r.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return r
}

const (
	// pauseOfRoles is between two reads of a role.
	pauseOfRoles = time.Second
	// patienceWithRoles bounds one read of a role.
	patienceWithRoles = 5 * time.Second
)

// Follow reads the spans every second until the context ends, and then once more.
func (r *Role) Follow(ctx context.Context, w *Writer) {
	tick := time.NewTicker(pauseOfRoles)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			r.Read(context.WithoutCancel(ctx), w)
			return
		case <-tick.C:
			r.Read(ctx, w)
		}
	}
}

// Read writes the spans since the last read. Spans that the role does not keep any more, and a role
// that does not answer, are noted in the record.
func (r *Role) Read(ctx context.Context, w *Writer) {
	ctx, stop := context.WithTimeout(ctx, r.patience)
	defer stop()
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

// Spans returns the spans that a role keeps, once. The client reaches the endpoint; nil for one without
// credentials.
func Spans(ctx context.Context, endpoint string, client *http.Client) ([]telemetry.Span, error) {
	r := NewRole(endpoint, client)
	ctx, stop := context.WithTimeout(ctx, r.patience)
	defer stop()
	answer, err := r.ask(ctx)
	return answer.Spans, err
}

// cut bounds a text of a span. Names and handles have a few hundred bytes.
func cut(text string) string {
	const most = 1 << 10
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

const (
	// mostOfAnswer bounds what is read of an endpoint.
	mostOfAnswer = 16 << 20
	// mostSpans bounds the spans of one answer; a role keeps fewer.
	mostSpans = 16 << 10
)

func (r *Role) ask(ctx context.Context) (a telemetry.SpansAnswer, err error) {
	url := fmt.Sprintf("%s%s?after=%d", r.endpoint, telemetry.PathSpans, r.next)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return a, err
	}
	response, err := r.client.Do(request)
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
	if len(a.Spans) > mostSpans {
		a.Spans = a.Spans[len(a.Spans)-mostSpans:]
	}
	for i := range a.Spans {
		span := &a.Spans[i]
		for _, text := range []*string{&span.Role, &span.Name, &span.Code, &span.Volume, &span.Object} {
			*text = cut(*text)
		}
	}
	return a, nil
}
