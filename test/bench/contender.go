package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/test/bench/kubeconfig"
	"github.com/purser-csi/purser/test/e2e/audit"
	"github.com/purser-csi/purser/test/e2e/scrape"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// contender gives claims their volumes.
type contender struct {
	short, name string
	start       func(context.Context) (team, error)
	bare        *bare // for a floor, which is no program
	dynamicOnly bool  // it does with volumes that are there what another contender does
	paceOnly    bool  // it only shows how a provisioner does beside the stock controllers
	// floor is the contender that makes no more writes than this one must.
	floor    string
	accounts map[string]bool // of its controllers
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

const (
	accountNamespace   = "purser-system"
	stockNamespace     = "kube-system"
	accountControllers = "controllers"
	accountProvisioner = "csi-provisioner"
	accountPlane       = "plane"
	accountLoad        = "load"
)

var (
	userProvisioner = audit.ServiceAccount(accountNamespace, accountProvisioner)
	userBinder      = audit.ServiceAccount(stockNamespace, "persistent-volume-binder")
)

func (c *contest) contenders() []contender {
	accounts := func(namespace string, names ...string) map[string]bool {
		all := map[string]bool{}
		for _, name := range names {
			all[audit.ServiceAccount(namespace, name)] = true
		}
		return all
	}
	noTeam := func(context.Context) (team, error) { return team{}, nil }
	writer := client.WithFieldOwner(c.rig.api, floorWriter)
	stock := accounts(
		stockNamespace,
		"persistent-volume-binder",
		"pvc-protection-controller",
		"pv-protection-controller",
		"expand-controller",
		"ephemeral-volume-controller",
	)
	return []contender{
		{short: "floor4", name: nameFloor4, start: noTeam, bare: &bare{api: writer}},
		{short: "floor5", name: nameFloor5, start: noTeam, bare: &bare{api: writer, apart: true}, dynamicOnly: true},
		{short: "alone", name: nameAlone, start: c.startAlone, floor: nameFloor5, accounts: stock, paceOnly: true},
		{short: "late", name: nameLate, start: c.startLate, floor: nameFloor5, accounts: stock, paceOnly: true},
		{short: "shipped", name: nameSlow, start: c.startShipped, floor: nameFloor5, accounts: stock, paceOnly: true},
		{short: "stock", name: nameStock, start: c.startStock, floor: nameFloor5, accounts: stock},
		{
			short:    "purser",
			name:     nameOurs,
			start:    c.startOurs,
			floor:    nameFloor5,
			accounts: accounts(accountNamespace, accountControllers),
		},
		{
			short:       "plane",
			name:        namePlane,
			start:       c.startPlane,
			floor:       nameFloor4,
			accounts:    accounts(accountNamespace, accountPlane),
			dynamicOnly: true,
		},
	}
}

// team is the programs of a contender; without any for a floor. In the plane the two are one.
type team struct {
	controllers *stage.Program
	provisioner *sidecar                           // nil for one in this process
	end         context.CancelFunc                 // of that one, or of one that comes later
	address     string                             // of the HTTP endpoint of the controllers; empty for none
	beside      func(context.Context, *work) error // is done while the claims are made; nil for nothing
}

// finish lets a provisioner resolve its journal entries: the next leader would make up for it
// amid a trial.
func (t team) finish() error {
	if t.provisioner == nil {
		return nil
	}
	return t.provisioner.Stop()
}

func (t team) kill() {
	if t.controllers != nil {
		t.controllers.Kill()
	}
	if t.provisioner != nil && t.provisioner.Program != t.controllers {
		t.provisioner.Kill()
	}
	if t.end != nil {
		t.end()
	}
}

func (c *contest) startStock(ctx context.Context) (team, error) {
	return c.besideProvisioner(ctx, func(string) (*stage.Program, error) { return c.stockControllers(noLimits...) })
}

// startShipped is the controllers as most clusters have them: with 20 requests a second of each.
func (c *contest) startShipped(ctx context.Context) (team, error) {
	return c.besideProvisioner(ctx, func(string) (*stage.Program, error) { return c.stockControllers() })
}

// noLimits lifts the limits of kube-controller-manager, which otherwise are all that would be
// measured of it.
var noLimits = []string{"--kube-api-qps=10000", "--kube-api-burst=20000"}

func (c *contest) stockControllers(more ...string) (*stage.Program, error) {
	log, err := os.CreateTemp(c.dir, "kube-controller-manager-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own
	return stage.Launch(stage.Command{
		Path: filepath.Join(c.bin, string(cluster.ControllerManager)), Output: log,
		Args: append([]string{
			"--kubeconfig=" + c.cluster.Kubeconfig(), "--leader-elect=false", "--secure-port=0", "--use-service-account-credentials=true",
			"--controllers=" + strings.Join(cluster.VolumeControllers(), ","),
		}, more...),
	})
}

func (c *contest) startOurs(ctx context.Context) (team, error) {
	return c.besideProvisioner(ctx, func(address string) (*stage.Program, error) {
		account, err := c.kubeconfig(ctx, accountControllers)
		if err != nil {
			return nil, err
		}
		return c.launch("controllers", "--kubeconfig", account, "--http-endpoint", address, "--enable-pprof")
	})
}

// besideProvisioner starts controllers and the provisioner that they rely on.
func (c *contest) besideProvisioner(
	ctx context.Context,
	controllers func(address string) (*stage.Program, error),
) (t team, err error) {
	if t.provisioner, err = c.startProvisioner(ctx); err != nil {
		return t, err
	}
	if t.address, err = scrape.FreeAddress(); err == nil {
		t.controllers, err = controllers(t.address)
	}
	if err != nil {
		t.kill()
	}
	return t, err
}

func (c *contest) startProvisioner(ctx context.Context) (*sidecar, error) {
	return c.startAs(ctx, "csi-provisioner", accountProvisioner)
}

// startPlane is both in one.
func (c *contest) startPlane(ctx context.Context) (t team, err error) {
	if t.provisioner, err = c.startAs(ctx, "plane", accountPlane); err != nil {
		return t, err
	}
	t.controllers, t.address = t.provisioner.Program, t.provisioner.address
	return t, nil
}

// startAs starts a role that talks to the driver.
func (c *contest) startAs(ctx context.Context, role, account string) (*sidecar, error) {
	path, err := c.kubeconfig(ctx, account)
	if err != nil {
		return nil, err
	}
	return c.sidecar(
		ctx,
		role,
		"--csi-address",
		c.socket(),
		"--kubeconfig",
		path,
		"--leader-election-namespace",
		accountNamespace,
		"--enable-pprof",
	)
}

// kubeconfig is a file for a service account.
func (c *contest) kubeconfig(ctx context.Context, account string) (string, error) {
	admin := c.cluster.RESTConfig()
	clients, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return "", err
	}
	seconds := int64((24 * time.Hour).Seconds())
	token, err := clients.CoreV1().ServiceAccounts(accountNamespace).CreateToken(ctx, account,
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
		}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token for %s: %w", account, err)
	}
	path := filepath.Join(c.dir, account+".kubeconfig")
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken = token.Status.Token
	return path, kubeconfig.Write(path, config)
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
