package daytwo

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/daytwo/read"
	rules "github.com/purser-csi/purser/internal/daytwo/rules"
	"github.com/purser-csi/purser/internal/printable"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/explain"
)

type orphanOptions struct {
	command
	read.OrphanConfig
	volumeOf string
}

func newOrphans(streams explain.Streams) *cobra.Command {
	o := &orphanOptions{command: command{Streams: streams}}
	c := &cobra.Command{
		Use:   "orphans",
		Short: "List volumes, snapshots, attachments and mounts that nothing refers to",
		Long: `Compares PersistentVolumes with claims, contents with snapshots, attachments with
nodes, volumes and pods, and what nodes use with PersistentVolumes; with
--csi-address, the volumes and snapshots that the driver lists with the objects
that name them; with --kubelet-dir, the mounts of this machine with pods and
volumes. Each finding has the proof: what was looked for, where, and not found.
It deletes nothing: it prints a command that an administrator may run.

The socket of a driver is on its node: run it there with a kubeconfig, or in the
driver's pod, whose image has the program and whose account sees a part of the
objects.`,
		Example: `  purser orphans
  purser orphans --csi-address unix:///var/lib/kubelet/plugins/csi.purser/csi.sock
  purser orphans --kubelet-dir /var/lib/kubelet`,
		Args: cli.NoArguments,
		RunE: run(o.run),
	}
	o.flags(c, "")
	f := c.Flags()
	f.StringVar(
		&o.CSIAddress, "csi-address", "",
		"`socket` of a driver, such as unix:///csi/csi.sock, to compare what it lists",
	)
	f.StringVar(&o.KubeletDir, "kubelet-dir", "", "root `folder` of this machine's kubelet, to compare its mounts")
	f.DurationVar(&o.Timeout, "timeout", 30*time.Second, "how long one call to the driver may take")
	f.DurationVar(&o.Again, "again-after", 5*time.Second,
		"pause before what the driver lists and no object names is compared "+
			"once more, as it may be about to be named")
	f.DurationVar(&o.Grace, "older-than", 10*time.Minute, "how long an object must have been as it is")
	f.StringVar(&o.volumeOf, "pv-of", "",
		"print a PersistentVolume, with the policy Retain, for the volume with this `handle` "+
			"of the driver, and do nothing else")
	exitCodes(
		c, "nothing was found", "something was found", "something could not be compared, or the command line is wrong",
	)
	return c
}

func (o *orphanOptions) run(c *cobra.Command, _ []string) error {
	if o.Timeout <= 0 || o.Again < 0 || o.Grace < 0 {
		return cli.SyntaxError{Err: fmt.Errorf("--timeout=%s --again-after=%s --older-than=%s: must not be negative, "+
			"and --timeout more than 0", o.Timeout, o.Again, o.Grace)}
	}
	if o.CSIAddress != "" {
		if _, err := csirpc.SocketPath(o.CSIAddress); err != nil {
			return cli.SyntaxError{Err: fmt.Errorf("--csi-address: %w", err)}
		}
	}
	if o.volumeOf != "" {
		return o.printVolume(c)
	}
	t, err := o.connect(c)
	if err != nil {
		return err
	}
	o.Reader = t
	in, err := read.Orphans(c.Context(), o.OrphanConfig, time.Now())
	if err != nil {
		return err
	}
	return o.print(rules.FindOrphans(in))
}

// printVolume prints a PersistentVolume for a volume of the driver.
func (o *orphanOptions) printVolume(c *cobra.Command) error {
	if o.CSIAddress == "" {
		return cli.SyntaxError{Err: errors.New("--pv-of: give the socket of the driver with --csi-address")}
	}
	driver, volume, err := read.Handle(c.Context(), o.OrphanConfig, o.volumeOf)
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(rules.VolumeFor(driver, volume))
	if err == nil {
		_, err = io.WriteString(o.Out, printable.Text(string(text)))
	}
	return err
}
