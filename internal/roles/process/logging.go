package process

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	_ "k8s.io/component-base/logs/json/register" // --logging-format=json

	"github.com/purser-csi/purser/internal/printable"
	"github.com/purser-csi/purser/internal/roles/cli"
)

// startLogging returns a context with the role's logger. It sets the logger of the libraries too,
// unless the role is one of several in the process.
func startLogging(ctx context.Context, given logr.Logger, cfg *logsapi.LoggingConfiguration) (context.Context, error) {
	if given.GetSink() != nil {
		return logr.NewContext(ctx, given), nil
	}
	log, err := NewLog(cfg)
	if err != nil {
		return nil, err
	}
	ctrllog.SetLogger(log)
	return logr.NewContext(ctx, log), nil
}

// NewLog sets up the logs of the process and returns their logger.
func NewLog(cfg *logsapi.LoggingConfiguration) (logr.Logger, error) {
	streams := &logsapi.LoggingOptions{
		ErrorStream: logStream{os.Stderr, cfg.Format},
		InfoStream:  logStream{os.Stdout, cfg.Format},
	}
	if err := logsapi.ValidateAndApplyWithOptions(cfg, streams, nil); err != nil {
		return logr.Logger{}, cli.UsageError{Err: fmt.Errorf("logging: %w", err)}
	}
	return klog.Background(), nil
}

// logStream escapes the characters that a terminal acts on. The format text writes values of several
// lines as they are, and JSON escapes the controls below the space alone.
type logStream struct {
	out    io.Writer
	format string
}

// Write implements io.Writer. The loggers write whole lines.
func (s logStream) Write(line []byte) (int, error) {
	escape := printable.Text
	if s.format == logsapi.JSONLogFormat {
		escape = printable.JSON
	}
	if _, err := io.WriteString(s.out, escape(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}
