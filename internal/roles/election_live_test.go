package roles

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/driver"
	"github.com/purser-csi/purser/internal/kube"
)

func dial(t *testing.T, p *Provisioner) *csirpc.Conn {
	t.Helper()
	conn, err := csirpc.Dial(csirpc.Config{Endpoint: p.CSIAddress, Timeout: p.Timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// bridge notes who leads, and every moment at which more than one does.
type bridge struct {
	mu      sync.Mutex
	leading []string
	history []string
	crowded []string
}

func (b *bridge) enter(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leading = append(b.leading, name)
	b.history = append(b.history, name)
	if len(b.leading) > 1 {
		b.crowded = append(b.crowded, strings.Join(b.leading, "+"))
	}
}

func (b *bridge) leave(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leading = slices.DeleteFunc(b.leading, func(n string) bool { return n == name })
}

func (b *bridge) leader(name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.leading, []string{name}) {
		return fmt.Errorf("leading: %q, want %s", b.leading, name)
	}
	return nil
}

// contend takes part in the election until it is ended, which releases the lock.
func (b *bridge) contend(t *testing.T, name string, lock resourcelock.Interface) (end func()) {
	t.Helper()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 2 * time.Second, RenewDeadline: time.Second, RetryPeriod: 200 * time.Millisecond, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { b.enter(name) },
			OnStoppedLeading: func() { b.leave(name) },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); elector.Run(ctx) }()
	end = func() { cancel(); <-done }
	t.Cleanup(end)
	return end
}

// O-3: through an upgrade from v1 by way of --leader-election-type=endpoints to v6 and back there is never more than one leader.
func TestUpgradeFromEndpoints(t *testing.T) {
	api := liveCluster(t)
	newest := func(args ...string) resourcelock.Interface {
		p, err := parsed(t, append(args, "--leader-election-namespace=default", "--leader-election-renew-deadline=1s")...)
		if err != nil {
			t.Fatal(err)
		}
		lock, err := p.Election.newLock(api, "driver", nil)
		if err != nil {
			t.Fatal(err)
		}
		return lock
	}
	v1 := func(name string) resourcelock.Interface {
		core, err := corev1client.NewForConfig(quiet(api))
		if err != nil {
			t.Fatal(err)
		}
		return &kube.EndpointsLock{Meta: metav1.ObjectMeta{Namespace: "default", Name: "driver"}, Client: core, Holder: name}
	}
	b := &bridge{}
	old := b.contend(t, "v1", v1("v1"))
	eventually(t, "v1 leads", func() error { return b.leader("v1") })
	both := b.contend(t, "both", newest("--enable-leader-election"))
	other := b.contend(t, "other", newest("--leader-election", "--leader-election-type=endpoints"))
	time.Sleep(3 * time.Second) // nothing may happen, though each contender tries several times meanwhile
	if err := b.leader("v1"); err != nil {
		t.Fatal(err)
	}
	old()
	eventually(t, "one of the two leads", func() error {
		if b.leader("both") == nil {
			return nil
		}
		return b.leader("other")
	})
	b.contend(t, "v6", newest("--leader-election"))
	b.contend(t, "v1 again", v1("v1-again"))
	time.Sleep(3 * time.Second) // nothing may happen, though each contender tries several times meanwhile
	both()
	other()
	eventually(t, "a new leader", func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.leading) == 0 {
			return fmt.Errorf("nobody leads")
		}
		return nil
	})
	// v1 and v6 know nothing of each other; only while one of ours takes part is there one leader.
	for _, crowd := range b.crowded {
		if strings.Contains(crowd, "both") || strings.Contains(crowd, "other") {
			t.Errorf("more than one leader: %s (history %q)", crowd, b.history)
		}
	}
}

func quiet(api *rest.Config) *rest.Config {
	api = rest.CopyConfig(api)
	api.WarningHandlerWithContext = rest.NoWarnings{}
	return api
}

// U-11: what is missing is named, once, and what nobody needs is not asked for.
func TestPermissionsAtStart(t *testing.T) {
	api := liveCluster(t)
	admin, err := client.New(api, client.Options{Scheme: rbacScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	f := furnisher{admin: api, client: admin}
	if err := f.roles(t.Context()); err != nil {
		t.Fatal(err)
	}
	as := rest.CopyConfig(api)
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + systemNamespace + ":csi-provisioner"}
	p, err := parsed(t, "--leader-election", "--leader-election-namespace="+systemNamespace)
	if err != nil {
		t.Fatal(err)
	}
	w := &wiring{role: p, api: as}
	wanted, err := w.wantedPermissions()
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(wanted, func(p permission) bool { return p.Resource == "volumeattachments" || p.Resource == "csinodes" }) {
		t.Error("asks for what a driver without topology and attachment does not need")
	}
	if missing, err := missingPermissions(t.Context(), as, wanted); err != nil || len(missing) > 0 {
		t.Errorf("the shipped role lacks %v, %v", missing, err)
	}

	var role rbacv1.ClusterRole
	if err := admin.Get(t.Context(), client.ObjectKey{Name: "purser-csi-provisioner"}, &role); err != nil {
		t.Fatal(err)
	}
	for i := range role.Rules {
		if slices.Contains(role.Rules[i].Resources, "persistentvolumes") {
			role.Rules[i].Verbs = slices.DeleteFunc(role.Rules[i].Verbs, func(v string) bool { return v == "patch" })
		}
	}
	if err := admin.Update(t.Context(), &role); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the missing verb is named", func() error {
		missing, err := missingPermissions(t.Context(), as, wanted)
		if err != nil || len(missing) != 1 || missing[0].String() != "patch persistentvolumes" {
			return fmt.Errorf("missing %v, %w", missing, err)
		}
		return nil
	})
	log := &logbook{}
	w.checkPermissions(withLogger(t, log))
	if lines := log.all(); len(lines) != 1 || !strings.Contains(lines[0], "missing permission: patch persistentvolumes") {
		t.Errorf("logged %q", lines)
	}
}

// ST-15: a lost lease is an error that travels up, and it does so before the next leader could act for long.
func TestLostLease(t *testing.T) {
	api := liveCluster(t)
	socket, _ := liveDriver(t)
	p, _ := liveProvisioner(t, api, socket)
	user, err := client.New(api, client.Options{Scheme: kube.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Run(t.Context()) }()
	eventually(t, "a leader", func() error { return holds(t, user, p.Election.Identity()) })
	usurper, err := (&Election{identity: "usurper", Namespace: "default", RenewDeadline: time.Second}).newLock(api, leaseName(driver.DefaultName), nil)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the one that lost", func() error {
		if record, _, err := usurper.Get(t.Context()); err == nil {
			now := metav1.Now()
			record.HolderIdentity, record.RenewTime, record.AcquireTime = "usurper", now, now
			_ = usurper.Update(t.Context(), *record)
		}
		select {
		case err := <-ended:
			if err == nil || !strings.Contains(err.Error(), "leader election lost") {
				t.Errorf("ended with %v", err)
			}
			return nil
		default:
			return fmt.Errorf("it still runs")
		}
	})
	if err := holds(t, user, "usurper"); err != nil {
		t.Errorf("the loser released a lease that was not its own: %v", err)
	}
}
