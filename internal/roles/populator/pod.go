package populator

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/populate/httpsource"
	"github.com/purser-csi/purser/internal/populate/pod"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/process"
)

// Filler writes the data of one source to one volume, in the pod of a claim.
type Filler struct {
	Source httpsource.Source
	Config pod.Config
}

// PodCommand returns the command populate. It is for the pods of the populator, so help does not list it.
func PodCommand(program cli.Program) *cobra.Command {
	fill := &Filler{}
	if _, err := os.Stat(process.TerminationLog); err == nil {
		fill.Config.TerminationLog = process.TerminationLog
	}
	c := &cobra.Command{
		Use: "populate http", Hidden: true, ValidArgs: []string{kindHTTP},
		Args:  cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		Short: "Write the data of an HTTPSource to a volume, in the pod of a populator",
		RunE:  cli.Run(fill), Version: program.Version,
	}
	fill.AddFlags(c.Flags())
	return c
}

// AddFlags binds the settings to their flags.
func (p *Filler) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&p.Source.URL, "url", "", "`URL` of the data: http, https or oci")
	f.StringVar(&p.Source.SHA256, "sha256", "", "checksum of the file, in hexadecimal `digits`; empty for none")
	f.StringVar(&p.Source.Format, "format", "raw", "raw, tar or tar.gz")
	f.StringVar(&p.Source.FileName, "file-name", httpsource.DefaultFile, "`name` of the file in a filesystem")
	f.StringVar(&p.Source.SecretDir, "secret-dir", "", "`folder` of the mounted Secret; empty for none")
	f.StringVar(&p.Source.Namespace, "source-namespace", "", "`namespace` of the source")
	f.BoolVar(&p.Source.AllowLocal, "allow-local-addresses", false,
		"connect to loopback and link-local addresses and to the metadata services of clouds too")
	f.StringVar(&p.Config.Target.Path, "target", "", "`path` of the device, or of the folder of the filesystem")
	f.BoolVar(&p.Config.Target.Block, "block", false, "the target is a block device")
	f.Int64Var(&p.Config.Target.Size, "max-bytes", 0, "the most bytes that are written; 0 for the volume's own limit")
	cli.Ranged(f, cli.Range{Least: "0"}, "max-bytes")
	f.StringVar(&p.Config.ProgressAddress, "progress-address", "", "`address` to serve the progress on; empty for none")
}

// Validate implements cli.Role.
func (p *Filler) Validate() error {
	return errors.Join(
		cli.Need(p.Config.Target.Path != "", "--target=%q: must be a path", p.Config.Target.Path),
		cli.Need(p.Config.Target.Size >= 0, "--max-bytes=%d: must be at least 0", p.Config.Target.Size),
		cli.ValidateAddress("progress-address", p.Config.ProgressAddress),
		p.Source.Validate(p.Config.Target.Block),
	)
}

// Run implements cli.Role.
func (p *Filler) Run(ctx context.Context) error {
	return pod.Run(ctx, p.Config, p.Source, httpsource.Write)
}
