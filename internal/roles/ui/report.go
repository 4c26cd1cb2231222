package ui

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/purser-csi/purser/internal/roles/explain"
	pages "github.com/purser-csi/purser/internal/ui"
)

type reportOptions struct {
	*explain.Pages

	output    string
	hideNames bool
	lives     int
	out       io.Writer
}

func newReport(streams explain.Streams) *cobra.Command {
	o := &reportOptions{Pages: explain.NewPages(streams), out: streams.Out}
	c := &cobra.Command{
		Use:   "report [KIND/NAME ...]",
		Short: "Write the pages into one file that can be sent",
		Long: `Writes the pages of ui into one HTML file: what is stuck, the map, the numbers,
and the lives of volumes: of the objects that are named, of those that are stuck,
of the slowest and of the newest. It opens in a browser without a network. Of a
record it has the time of each change; of a cluster or a dump only the times that
objects name.`,
		Example: `  purser report -o report.html
  purser report --from record.jsonl.gz --hide-names -o report.html`,
		RunE: func(c *cobra.Command, args []string) error { return explain.CannotTell(o.run(c.Context(), args)) },
	}
	o.AddFlags(c.Flags())
	explain.SetExitCodes(c, "written")
	c.Flags().StringVarP(&o.output, "output", "o", "-", "`file` to write; - is standard output")
	c.Flags().BoolVar(&o.hideNames, "hide-names", false,
		"replace the names of objects, namespaces and nodes, the same name always by the same word")
	c.Flags().IntVar(
		&o.lives, "lives", 200, "objects whose pages are in the report, at most, besides those that are named",
	)
	return c
}

func (o *reportOptions) run(ctx context.Context, args []string) error {
	if o.lives < 0 {
		return fmt.Errorf("--lives=%d: expected 0 or more", o.lives)
	}
	if o.hideNames && len(args) > 0 {
		return errors.New("--hide-names: the report has other names than those that are given; leave out KIND/NAME")
	}
	if err := o.Validate(); err != nil {
		return err
	}
	read := o.State
	if o.hideNames {
		read = o.HiddenState
	}
	state, err := read(ctx)
	if err != nil {
		return err
	}
	refs, err := o.Refs(args, "")
	if err != nil {
		return err
	}
	options := pages.ReportOptions{Lives: o.lives, Objects: refs}
	if o.output == "-" {
		return pages.Report(o.out, state, options)
	}
	return toFile(o.output, func(to io.Writer) error { return pages.Report(to, state, options) })
}

// toFile writes a file that the user alone may read: it names the objects of a cluster.
func toFile(path string, write func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("-o %s: %w", path, err)
	}
	buffered := bufio.NewWriter(file)
	err = write(buffered)
	return errors.Join(err, buffered.Flush(), file.Close())
}
