package claims

import (
	"context"
	"slices"
	"strings"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/bench/runner"
	"github.com/purser-csi/purser/test/e2e/audit"
)

// contender gives claims their volumes. Its programs are the provisioner, and then the controllers; one
// program is the plane, or the controllers beside a provisioner that begin starts.
type contender struct {
	runner.Contender
	begin       func(context.Context, *team) error // what runs beside the programs; nil for nothing
	bare, apart bool                               // a floor, which is no program; of two clients
	dynamicOnly bool                               // it does with volumes that are there what another contender does
	paceOnly    bool                               // it only shows how a provisioner does beside the stock controllers
	floor       string                             // the contender that makes no more writes than this one must
	accounts    map[string]bool                    // of its controllers
}

// The contenders. Beside a provisioner that is another program, a claim is asked for by an
// annotation, and each side drops a finalizer of its own: a write more for each claim, and one for
// each deletion. That is a floor of its own.
const (
	nameFloor4 = "floor, 4 writes"
	nameFloor5 = "floor, 5 writes"
	nameStock  = "stock" // without limits of its own
	nameSlow   = "stock as shipped"
	nameAlone  = "stock, bare provisioner"
	nameLate   = "stock, late provisioner"
	nameOurs   = "purser"
	namePlane  = "plane"
)

// The accounts of the programs, and of the load.
const (
	stockNamespace     = "kube-system"
	accountControllers = "controllers"
	accountProvisioner = "csi-provisioner"
	accountPlane       = "plane"
	accountLoad        = "load"
)

var (
	userProvisioner = runner.User(accountProvisioner)
	userBinder      = audit.ServiceAccount(stockNamespace, "persistent-volume-binder")
)

const leases = "--leader-election-namespace=" + process.SystemNamespace

// The programs of contenders.
var (
	provisioner = runner.Program{
		Name: "purser", Args: []string{"csi-provisioner", leases, "--enable-pprof"}, Account: accountProvisioner,
		Socket: true, HTTP: true, Ready: true,
	}
	ourControllers = runner.Program{
		Name: "purser", Args: []string{"controllers", "--enable-pprof"}, Account: accountControllers, HTTP: true,
	}
	plane = runner.Program{
		Name: "purser", Args: []string{"plane", leases, "--enable-pprof"}, Account: accountPlane,
		Socket: true, HTTP: true, Ready: true,
	}
	// shipped is the controllers as most clusters have them: with 20 requests a second of each.
	shipped = runner.Program{Name: string(cluster.ControllerManager), Args: []string{
		"--leader-elect=false", "--secure-port=0", "--use-service-account-credentials=true",
		"--controllers=" + strings.Join(cluster.VolumeControllers(), ","),
	}}
	stock = unlimited(shipped)
)

// unlimited lifts the limits of kube-controller-manager, which otherwise are all that would be
// measured of it.
func unlimited(p runner.Program) runner.Program {
	p.Args = append(slices.Clone(p.Args), "--kube-api-qps=10000", "--kube-api-burst=20000")
	return p
}

func (c *contest) contenders() []contender {
	stockUsers := map[string]bool{userBinder: true}
	for _, name := range []string{
		"pvc-protection-controller", "pv-protection-controller", "expand-controller", "ephemeral-volume-controller",
	} {
		stockUsers[audit.ServiceAccount(stockNamespace, name)] = true
	}
	all := func(short, name string, programs ...runner.Program) runner.Contender {
		return runner.Contender{Short: short, Name: name, Programs: programs}
	}
	beside := func(one runner.Contender) contender {
		return contender{Contender: one, floor: nameFloor5, accounts: stockUsers, paceOnly: true}
	}
	alone, late := beside(all("alone", nameAlone, stock)), beside(all("late", nameLate, stock))
	alone.begin, late.begin = c.startAlone, c.startLate
	unlimited := beside(all("stock", nameStock, provisioner, stock))
	unlimited.paceOnly = false
	return []contender{
		{Contender: all("floor4", nameFloor4), bare: true},
		{Contender: all("floor5", nameFloor5), bare: true, apart: true, dynamicOnly: true},
		alone,
		late,
		beside(all("shipped", nameSlow, provisioner, shipped)),
		unlimited,
		{
			Contender: all("purser", nameOurs, provisioner, ourControllers), floor: nameFloor5,
			accounts: map[string]bool{runner.User(accountControllers): true},
		},
		{
			Contender: all("plane", namePlane, plane), floor: nameFloor4, dynamicOnly: true,
			accounts: map[string]bool{runner.User(accountPlane): true},
		},
	}
}

// find returns what this package knows of a contender.
func (c *contest) find(one runner.Contender) contender {
	all := c.contenders()
	return all[slices.IndexFunc(all, func(who contender) bool { return who.Name == one.Name })]
}

// team is the running programs of a contender; without any for a floor. In the plane the two are one.
type team struct {
	contender
	processes                []*runner.Process
	controllers, provisioner *runner.Process                    // nil for a provisioner in this process
	end                      context.CancelFunc                 // of that one, or of one that comes later
	beside                   func(context.Context, *work) error // is done while the claims are made; nil for nothing
}

func (c *contest) team(ctx context.Context, running *runner.Running) (t *team, err error) {
	t = &team{contender: c.find(running.Contender), processes: running.Processes, end: func() {}}
	if n := len(t.processes); n > 0 {
		t.controllers = t.processes[n-1]
		if t.begin == nil {
			t.provisioner = t.processes[0]
		}
	}
	if t.begin != nil {
		err = t.begin(ctx, t)
	}
	return t, err
}

// finish lets a provisioner resolve its journal entries: the next leader would make up for it
// amid a trial.
func (t *team) finish() error {
	if t.provisioner == nil {
		return nil
	}
	return t.provisioner.Stop()
}

// awaitWork returns when the contender has bound a claim.
func (c *contest) awaitWork(ctx context.Context, who contender) error {
	w, err := c.work(ctx, who, 1)
	if err != nil {
		return err
	}
	if err := w.volumes(ctx, prebound); err != nil {
		return err
	}
	if _, err := w.bind(ctx, staticClass); err != nil {
		return err
	}
	return w.clear(ctx)
}
