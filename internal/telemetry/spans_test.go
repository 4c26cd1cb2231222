package telemetry

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"testing"
)

// A reader that asks with the number of the last answer gets each span once, and learns how many it
// has missed.
func TestSpans(t *testing.T) {
	var none *Spans
	none.Add(Span{})
	s := NewSpans("i")
	ask := func(after uint64) (a SpansAnswer) {
		t.Helper()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("GET", fmt.Sprint(PathSpans, "?after=", after), nil))
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || a.Schema != SpansSchema {
			t.Fatal(err, w.Body.String())
		}
		return a
	}
	if a := ask(0); len(a.Spans) != 0 || a.Next != 0 {
		t.Errorf("%+v", a)
	}
	for i := range spansKept + 10 {
		s.Add(Span{Name: fmt.Sprint(i)})
	}
	a := ask(5)
	if a.Lost != 5 || len(a.Spans) != spansKept || a.Spans[0].Name != "10" || a.Spans[spansKept-1].Name != fmt.Sprint(spansKept+9) {
		t.Errorf("lost %d, %d spans", a.Lost, len(a.Spans))
	}
	if a := ask(a.Next - 1); len(a.Spans) != 1 || a.Lost != 0 {
		t.Errorf("%+v", a)
	}
	if a := ask(a.Next + 100); len(a.Spans) != 0 || a.Next != spansKept+10 { // of a process before this one
		t.Errorf("%+v", a)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", PathSpans+"?after=x", nil))
	if w.Code != 400 {
		t.Errorf("code %d", w.Code)
	}
}
