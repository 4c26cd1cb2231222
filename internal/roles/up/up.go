package up

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/driver"
	"github.com/purser-csi/purser/internal/roles/provisioner"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Up is the role up: a development cluster with storage in one terminal.
type Up struct {
	Version string
	Out     io.Writer

	DataDir      string
	Fresh        bool
	Kubeconfig   string // where to write one more copy; empty for none
	CSIAddress   string // of the user's own driver; empty for the built-in one
	DriverWait   time.Duration
	NodeName     string
	Nodes        int          // 0 for one in each zone, and at least one
	Zones        driver.Zones // the nodes are spread evenly over them
	HTTPEndpoint string       // of the provisioner
	Audit        bool
	Stock        bool // --stock-controllers
	Attach       bool // --attach-required
	WithKubelet  bool // --kubelet
	UI           bool // --ui
	Gates        roleGates

	SayAfter time.Duration

	Journal provisioner.JournalSettings // --purser-skip-unreadable-journal; the rest is as for csi-provisioner
}

const helpOfUI = "serve the pages of 'purser ui' on this machine, print their address and open it in a browser"

const sayAfterFlag = "say-waits-after"

// Command returns the command of the role.
func Command(program cli.Program) *cobra.Command {
	u := &Up{Version: program.Version, Out: program.Out}
	c := &cobra.Command{
		Use: "up", GroupID: cli.GroupTry, Args: cli.NoArguments,
		Short: "Start a development cluster with storage, in one terminal",
		Long: `Start a development cluster with storage: a real etcd, kube-apiserver and
kube-scheduler, virtual nodes, a CSI driver, the provisioner, the resizer, the
snapshotter and the volume controllers. kube-controller-manager runs too, for
namespaces, service accounts and garbage collection, without its volume
controllers. All files are in the data folder. Ctrl-C stops everything; no
process and no mount is left. The next 'up' on the same folder continues with
the same data.

The nodes have no kubelet: pods are scheduled and their volumes are mounted,
below the data folder, but their containers do not run, unless --kubelet is
given. A deleted pod is removed when its volumes are unmounted.`,
		Example: `  purser up
  purser up --fresh --data-dir /tmp/try
  purser up --nodes 6 --zones a,b,c
  purser up --csi-address unix:///tmp/my-driver.sock`,
		RunE: cli.Run(u),
	}
	u.AddFlags(c.Flags())
	return c
}

// AddFlags binds every setting to its flag.
func (u *Up) AddFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Cluster", func(f *pflag.FlagSet) {
		f.StringVar(
			&u.DataDir, "data-dir", ".purser", "`folder` for everything the cluster keeps; one cluster per folder",
		)
		f.BoolVar(&u.Fresh, "fresh", false, "forget what is in the data folder and start with an empty cluster")
		f.StringVar(&u.Kubeconfig, "kubeconfig", "",
			"write the kubeconfig to this `path` too; the data folder always has one")
		f.StringVar(
			&u.NodeName, "node-name", "purser",
			"`name` of the cluster's node; several are called NAME-1, NAME-2 and so on",
		)
		f.IntVar(&u.Nodes, "nodes", 0, "virtual nodes; 0 for one in each zone, and at least one")
		cli.Ranged(f, cli.Range{Least: "0", Most: strconv.Itoa(mostNodes)}, "nodes")
		f.BoolVar(&u.WithKubelet, "kubelet", false,
			"run a real kubelet and containerd in place of the node agent, so that containers run; "+
				"as root, with kubelet, containerd and runc on this machine, and images of this machine alone")
		f.Var(
			&u.Zones,
			"zones",
			"`zones` that the nodes are in, in turn, such as a,b,c; the built-in driver divides its volumes among "+
				"them, and a zone may have a size: a=10Gi,b,c",
		)
	})
	cli.Grouped(f, "Cluster", u.Journal.SkipFlag)
	f.DurationVar(&u.SayAfter, sayAfterFlag, time.Minute, "how long an object may wait before an event says so")
	_ = f.MarkHidden(sayAfterFlag) // for tests; it exists
	cli.Grouped(f, "Attaching", func(f *pflag.FlagSet) {
		f.BoolVar(&u.Attach, "attach-required", false,
			"have the volumes of the built-in driver attached to a node before they are mounted there")
	})
	cli.Grouped(f, "Your own driver", func(f *pflag.FlagSet) {
		f.StringVar(
			&u.CSIAddress,
			"csi-address",
			"",
			"`socket` of your own driver, such as unix:///tmp/csi.sock, instead of the built-in driver",
		)
		f.DurationVar(&u.DriverWait, "driver-timeout", 15*time.Second, "how long to wait for your own driver to answer")
	})
	cli.Grouped(f, "Metrics and audit", func(f *pflag.FlagSet) {
		f.StringVar(
			&u.HTTPEndpoint,
			"http-endpoint",
			"",
			"`address`, such as 127.0.0.1:8080, for the provisioner's metrics and health; the other roles then "+
				"serve theirs at free ports of this machine, and metrics.json in the data folder lists all for "+
				"Prometheus (file_sd_configs); empty for none",
		)
		f.BoolVar(
			&u.Stock,
			"stock-controllers",
			false,
			"leave claims and volumes to the controllers of kube-controller-manager, to compare them with ours",
		)
		f.BoolVar(&u.Audit, "audit", false,
			"log every API request, by whom and for what, to logs/audit.log in the data folder")
	})
	cli.Grouped(f, "Pages", func(f *pflag.FlagSet) { f.BoolVar(&u.UI, "ui", false, helpOfUI) })
	cli.Grouped(f, "Process", func(f *pflag.FlagSet) {
		f.Var(&u.Gates, "feature-gates", "features of the roles to switch, as `NAME=BOOL`,...: "+newRoleGates().Known())
	})
}

// Validate implements role.
func (u *Up) Validate() error {
	var errs []error
	if u.DataDir == "" {
		errs = append(errs, errors.New("--data-dir: must not be empty"))
	}
	if u.CSIAddress != "" {
		if _, err := csirpc.SocketPath(u.CSIAddress); err != nil {
			errs = append(errs, fmt.Errorf("--csi-address: %w", err))
		}
	}
	if u.Attach && u.CSIAddress != "" {
		errs = append(errs,
			errors.New("--attach-required: is for the built-in driver; your own says by its capabilities "+
				"whether its volumes are attached; leave one of the two flags out"))
	}
	if problems := validation.IsDNS1123Subdomain(u.NodeName); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--node-name=%q: %s", u.NodeName, strings.Join(problems, "; ")))
	}
	errs = append(errs, u.validateNodes())
	if u.DriverWait <= 0 {
		errs = append(errs, fmt.Errorf("--driver-timeout=%s: must be more than 0", u.DriverWait))
	}
	if path, err := filepath.Abs(u.DataDir); err == nil && u.CSIAddress == "" &&
		len(filepath.Join(path, socketName)) > maxSocketPath {
		errs = append(
			errs,
			fmt.Errorf(
				"--data-dir=%s: %d characters are too many for a socket inside of it, the kernel takes at most %d; "+
					"choose a shorter path",
				path,
				len(path),
				maxSocketPath-len(socketName)-1,
			),
		)
	}
	errs = append(errs, cli.ValidateAddress("http-endpoint", u.HTTPEndpoint), u.checkKubeconfig())
	return errors.Join(errs...)
}

const (
	socketName    = "csi.sock"
	maxSocketPath = 107 // sockaddr_un
	// kubeconfigMark is the first line of the copies that we write, so that a kubeconfig of the
	// user is never overwritten.
	kubeconfigMark = "# written by purser up; it may be overwritten\n"
)

func (u *Up) checkKubeconfig() error {
	if u.Kubeconfig == "" {
		return nil
	}
	content, err := os.ReadFile(u.Kubeconfig)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(u.Kubeconfig)); err != nil {
			return fmt.Errorf("--kubeconfig=%s: %w; make the folder first", u.Kubeconfig, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("--kubeconfig: %w", err)
	case !strings.HasPrefix(string(content), kubeconfigMark):
		return fmt.Errorf(
			"--kubeconfig=%s: the file exists and was not written by 'purser up'; choose another path",
			u.Kubeconfig,
		)
	}
	return nil
}

// Run implements role.
func (u *Up) Run(ctx context.Context) error {
	dir, err := filepath.Abs(u.DataDir)
	if err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	h := &upRun{Up: u, dir: dir, screen: newScreen(u.Out), spans: telemetry.NewSpans(rand.Text())}
	return h.run(ctx)
}
