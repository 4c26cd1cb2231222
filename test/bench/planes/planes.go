// Package planes has the contenders of the workloads that need all controllers of volumes together:
// Purser's in one process and in three, and upstream's. It must not know what is measured.
package planes

import (
	"slices"
	"strings"
	"time"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/bench/runner"
)

// Lease has the times of leader election.
type Lease struct{ Duration, Renew, Retry time.Duration }

// flags returns the flags of Purser's programs and of upstream's sidecars.
func (l Lease) flags() []string {
	return []string{
		"--leader-election", "--leader-election-namespace=" + process.SystemNamespace,
		"--leader-election-lease-duration=" + l.Duration.String(),
		"--leader-election-renew-deadline=" + l.Renew.String(),
		"--leader-election-retry-period=" + l.Retry.String(),
	}
}

const attachDetach = "persistentvolume-attach-detach-controller"

// Contenders have the same number of workers, and no limits of requests. All use the account.
func Contenders(account string, lease Lease) []runner.Contender {
	const workers = "--worker-threads=100"
	ours := func(role string, args ...string) runner.Program {
		return runner.Program{
			Name: "purser", Args: slices.Concat([]string{role}, args, lease.flags(), []string{"--enable-pprof"}),
			Account: account, Socket: role != "controllers", HTTP: true,
		}
	}
	unlimited := []string{"--kube-api-qps=10000", "--kube-api-burst=20000"}
	sidecar := func(name string) runner.Program {
		return runner.Program{
			Name: name, Args: slices.Concat([]string{workers}, lease.flags(), unlimited), Account: account,
			Socket: true,
			Env:    []string{"NAMESPACE=" + process.SystemNamespace, "POD_NAMESPACE=" + process.SystemNamespace},
		}
	}
	manager := runner.Program{Name: string(cluster.ControllerManager), Account: account, Args: append([]string{
		"--secure-port=0", "--controllers=" + strings.Join(append(cluster.VolumeControllers(), attachDetach), ","),
		"--leader-elect-resource-namespace=" + process.SystemNamespace,
		"--leader-elect-lease-duration=" + lease.Duration.String(),
		"--leader-elect-renew-deadline=" + lease.Renew.String(),
		"--leader-elect-retry-period=" + lease.Retry.String(),
	}, unlimited...)}
	return []runner.Contender{
		{Short: "plane", Name: "one process", Programs: []runner.Program{ours("plane", "--with-attacher")}},
		{Short: "separate", Name: "three processes", Programs: []runner.Program{
			ours("controllers"), ours("csi-provisioner"), ours("csi-attacher", workers),
		}},
		{Short: "stock", Name: "stock", Baseline: true, Programs: []runner.Program{
			manager, sidecar("upstream-csi-provisioner"), sidecar("upstream-csi-attacher"),
		}},
	}
}
