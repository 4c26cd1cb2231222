package process

import (
	"context"
	"runtime"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/purser-csi/purser/internal/roles/cli"
)

// LogSettings are what the flags about logs and processors set.
type LogSettings struct {
	Logging      *logsapi.LoggingConfiguration
	AutoMaxProcs bool
	Notices      *cli.Notices // warnings about the command line, logged at the start
}

// NewLogSettings returns the defaults.
func NewLogSettings() LogSettings {
	return LogSettings{Logging: logsapi.NewLoggingConfiguration(), Notices: &cli.Notices{}}
}

// AddFlags adds the flags F-54 and F-60 to F-62, and those of older logging libraries, of a role that has no
// controllers.
func (l *LogSettings) AddFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Process", l.AddProcessorFlag)
	cli.Grouped(f, "Logs", cli.LoggingFlags(l.Logging))
	cli.AddRetired(f, l.Notices, cli.RetiredKlog()...)
}

// AddProcessorFlag adds the flag F-54.
func (l *LogSettings) AddProcessorFlag(f *pflag.FlagSet) {
	f.BoolVar(&l.AutoMaxProcs, "automaxprocs", false,
		"set GOMAXPROCS from the container's CPU limit; the Go runtime does so without the flag")
}

// StartLogging sets up the logs, logs the warnings about the command line, and sets the number of
// processors. given overrides the flags of the logs when it is set.
func (l *LogSettings) StartLogging(ctx context.Context, given logr.Logger) (context.Context, error) {
	ctx, err := startLogging(ctx, given, l.Logging)
	if err != nil {
		return nil, err
	}
	l.Notices.LogTo(logr.FromContextOrDiscard(ctx))
	if l.AutoMaxProcs { // F-54; without the flag, the runtime does so unless the environment says otherwise (EN-7)
		runtime.SetDefaultGOMAXPROCS()
	}
	return ctx, nil
}
