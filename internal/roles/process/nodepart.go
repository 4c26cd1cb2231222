package process

import (
	"runtime"

	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/purser-csi/purser/internal/roles/cli"
)

// LogSettings are the flags about logs and processors of a role that has no controllers.
type LogSettings struct {
	Logging      *logsapi.LoggingConfiguration
	AutoMaxProcs bool
	Notices      *cli.Notices // warnings about the command line, logged at the start
}

// NewLogSettings returns the defaults.
func NewLogSettings() LogSettings {
	return LogSettings{Logging: logsapi.NewLoggingConfiguration(), Notices: &cli.Notices{}}
}

// AddFlags adds the flags F-54 and F-60 to F-62, and those of older logging libraries.
func (l *LogSettings) AddFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Process", func(f *pflag.FlagSet) {
		f.BoolVar(&l.AutoMaxProcs, "automaxprocs", false,
			"set GOMAXPROCS from the container's CPU limit; the Go runtime does so without the flag")
	})
	cli.Grouped(f, "Logs", cli.LoggingFlags(l.Logging))
	cli.AddRetired(f, l.Notices, cli.RetiredKlog()...)
}

// Apply sets the number of processors.
func (l *LogSettings) Apply() {
	if l.AutoMaxProcs {
		runtime.SetDefaultGOMAXPROCS()
	}
}

// AddKubeconfigFlag adds --kubeconfig alone, for a role that needs the API server for little.
func (a *APIAccess) AddKubeconfigFlag(f *pflag.FlagSet, what string) {
	f.StringVar(&a.Kubeconfig, "kubeconfig", "",
		"`path` of a kubeconfig, "+what+"; empty for that of the pod; the environment variable KUBECONFIG overrides it")
	cli.Marked(f, cli.MarkNew, "kubeconfig")
}
