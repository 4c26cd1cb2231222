package process

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// A runnable's log lines are written: a missing permission for the journal, the loss of the driver,
// the findings of the audit.
func TestRunnablesHaveALogger(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	logger := funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, prefix+" "+args)
	}, funcr.Options{})
	ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), logger))
	mgr, err := NewManager(ctx, ManagerConfig{API: &rest.Config{Host: "127.0.0.1:1"}, Election: &Election{}})
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
	mu.Lock() // the manager logs on after it has ended
	defer mu.Unlock()
	if lines := strings.Join(lines, "\n"); !strings.Contains(lines, "land ahoy") {
		t.Errorf("logged %s", lines)
	}
}
