package reconcile

import (
	"context"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/source"
)

// The log names a source that is a function by its controller, not by an address that differs in each run.
func TestSourcesHaveNames(t *testing.T) {
	f := source.TypedFunc[string](func(context.Context, Queue[string]) error { return nil })
	if got := fmt.Sprint(withName("binder", source.TypedSource[string](f))); got != "own source of binder" {
		t.Error(got)
	}
}
