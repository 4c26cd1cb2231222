package kube

import (
	"testing"
	"time"
)

// A uid stays until it is removed or expires.
func TestEndedObjects(t *testing.T) {
	var e EndedObjects
	now := time.Unix(1000, 0)
	e.Forget("never added")
	e.Add("a", now)
	e.Add("b", now.Add(keepEnded-time.Second))
	e.Forget("c")
	if !e.Has("a") || !e.Has("b") || e.Has("c") {
		t.Error("what was added is there, and nothing else")
	}
	e.Add("d", now.Add(keepEnded+time.Second))
	if e.Has("a") || !e.Has("b") || !e.Has("d") {
		t.Error("what is old goes, and nothing else")
	}
	if e.Forget("d"); e.Has("d") {
		t.Error("what the watch shows goes")
	}
}
