package process

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	_ "k8s.io/component-base/logs/json/register" // --logging-format=json

	"github.com/purser-csi/purser/internal/roles/cli"
)

// StartLogging returns a context with the role's logger. It sets the logger of the libraries too,
// unless the role is one of several in the process.
func StartLogging(ctx context.Context, given logr.Logger, cfg *logsapi.LoggingConfiguration) (context.Context, error) {
	if given.GetSink() != nil {
		return logr.NewContext(ctx, given), nil
	}
	if err := logsapi.ValidateAndApply(cfg, nil); err != nil {
		return nil, cli.UsageError{Err: fmt.Errorf("logging: %w", err)}
	}
	log := klog.Background()
	ctrllog.SetLogger(log)
	return logr.NewContext(ctx, log), nil
}
