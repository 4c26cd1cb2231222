package roles

import (
	"context"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// What a runnable of a manager has to say gets into the log: that the journal is not allowed, that the driver is gone, what the audit
// found.
func TestRunnablesHaveALogger(t *testing.T) {
	book := &logbook{}
	ctx, cancel := context.WithCancel(withLogger(t, book))
	mgr, err := newManager(ctx, managerConfig{api: &rest.Config{Host: "127.0.0.1:1"}, election: &Election{}})
	if err != nil {
		t.Fatal(err)
	}
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		logr.FromContextOrDiscard(ctx).Info("land ahoy")
		cancel()
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := mgr.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Join(book.all(), "\n"); !strings.Contains(lines, "land ahoy") {
		t.Errorf("logged %s", lines)
	}
}
