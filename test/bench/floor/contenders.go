package floor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/bench/runner"
)

// The contenders by their short names.
const (
	bareSeparate = "bare"
	bareTogether = "bare-one"
	ourSeparate  = "separate"
	ourTogether  = "one"
	stock        = "stock"
)

// The accounts of the programs, which the audit log tells apart.
const (
	accountControllers = "controllers"
	accountProvisioner = "csi-provisioner"
	accountAttacher    = "csi-attacher"
	accountResizer     = "csi-resizer"
	accountSnapshotter = "csi-snapshotter"
	accountController  = "snapshot-controller"
	accountPlane       = "plane"
	accountStock       = "controllers-of-stock"
	accountUsers       = "users"
	accountBare        = "bare"
)

// The programs of upstream. Each row needs some of them.
const (
	stockProvisioner = "upstream-csi-provisioner"
	stockAttacher    = "upstream-csi-attacher"
	stockResizer     = "upstream-csi-resizer"
	stockSnapshotter = "upstream-csi-snapshotter"
	stockController  = "upstream-snapshot-controller"
)

func formOf(one runner.Contender) form {
	if one.Short == ourTogether || one.Short == bareTogether {
		return together
	}
	return separate
}

func isBare(one runner.Contender) bool { return len(one.Programs) == 0 }

// bareOf returns the bare client that makes the writes of a contender's floor.
func bareOf(short string) string {
	if short == ourTogether {
		return bareTogether
	}
	return bareSeparate
}

const leases = "--leader-election-namespace=" + process.SystemNamespace

// contenders have as many workers as the bare client has writes in flight.
func (b *bench) contenders() []runner.Contender {
	threads := fmt.Sprintf("--worker-threads=%d", b.sizes.workers)
	workers := fmt.Sprintf("--workers=%d", b.sizes.workers)
	ours := func(account string, socket bool, args ...string) runner.Program {
		return runner.Program{
			Name: "purser", Args: append(args, "--enable-pprof"), Account: account, Socket: socket, HTTP: true,
			Ready: true,
		}
	}
	sidecar := func(name, account string, socket bool, args ...string) runner.Program {
		return runner.Program{
			Name: name, Account: account, Socket: socket, Optional: name != stockProvisioner,
			Args: append(args, "--kube-api-qps=10000", "--kube-api-burst=20000"),
		}
	}
	return []runner.Contender{
		{Short: bareSeparate, Name: "bare client of separate"},
		{Short: ourSeparate, Name: "drop-in, each role its own process", Programs: []runner.Program{
			ours(accountControllers, false, "controllers", threads),
			ours(accountProvisioner, true, "csi-provisioner", leases, threads),
			ours(accountAttacher, true, "csi-attacher", threads),
			ours(accountResizer, true, "csi-resizer", workers),
			ours(accountController, false, "snapshot-controller", threads),
			ours(accountSnapshotter, true, "csi-snapshotter", threads),
		}},
		{Short: stock, Name: "stock, limits lifted", Programs: []runner.Program{
			{
				Name: "kube-controller-manager", Account: accountStock, Args: []string{
					"--leader-elect=false", "--secure-port=0", "--kube-api-qps=10000", "--kube-api-burst=20000",
					"--controllers=" + strings.Join(stockControllers(), ","),
				},
			},
			sidecar(stockProvisioner, accountProvisioner, true, threads),
			sidecar(stockAttacher, accountAttacher, true, threads),
			sidecar(stockResizer, accountResizer, true, workers),
			sidecar(stockController, accountController, false, threads),
			sidecar(stockSnapshotter, accountSnapshotter, true, threads),
		}},
		{Short: bareTogether, Name: "bare client of one process"},
		{
			Short: ourTogether, Name: "one process: plane --with-attacher --with-snapshotter",
			Programs: []runner.Program{
				ours(accountPlane, true, "plane", "--with-attacher", "--with-snapshotter", leases, threads),
			},
		},
	}
}

// stockControllers are those of kube-controller-manager that Purser's controllers replace.
func stockControllers() []string {
	return append(cluster.VolumeControllers(),
		"persistentvolume-attach-detach-controller", "persistentvolume-expander-controller")
}

// accounts creates the accounts. Ours and the sidecars of upstream have the permissions that Purser ships,
// which are upstream's. kube-controller-manager reads more than its controllers need, so it is an
// administrator. Users and the bare client have tokens, since a certificate is verified with each request.
func accounts(ctx context.Context, r *runner.Run) error {
	if err := r.Roles(ctx, accountControllers, accountProvisioner, accountAttacher, accountResizer,
		accountSnapshotter, accountController); err != nil {
		return err
	}
	roles := func(of ...string) (all []string) {
		for _, role := range of {
			all = append(all, "purser-"+role)
		}
		return all
	}
	for _, one := range []struct {
		account             string
		clusterRoles, roles []string
	}{
		{
			accountPlane, roles(accountControllers, accountProvisioner, accountAttacher, accountResizer,
				accountSnapshotter, accountController),
			roles(accountControllers, accountProvisioner),
		},
		{accountStock, []string{"cluster-admin"}, nil},
		{accountUsers, []string{"cluster-admin"}, nil},
		{accountBare, []string{"cluster-admin"}, nil},
	} {
		if err := r.Bound(ctx, one.account, one.clusterRoles, one.roles); err != nil {
			return err
		}
	}
	return nil
}

// lacks returns the program of upstream that the row needs and the contender has not; empty if it has all.
func lacks(one runner.Contender, o operation) string {
	if one.Short != stock {
		return ""
	}
	needed := []string{stockProvisioner, o.upstream}
	if o.upstream == stockSnapshotter {
		needed = append(needed, stockController)
	}
	for _, name := range needed {
		if !slices.ContainsFunc(one.Programs, func(p runner.Program) bool { return p.Name == name }) {
			return name
		}
	}
	return ""
}
