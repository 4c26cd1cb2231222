package live

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/driver"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/rolestest"
)

// leaders records the current leaders, and every time at which there is more than one.
type leaders struct {
	mu      sync.Mutex
	leading []string
	history []string
	crowded []string
}

func (b *leaders) enter(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leading = append(b.leading, name)
	b.history = append(b.history, name)
	if len(b.leading) > 1 {
		b.crowded = append(b.crowded, strings.Join(b.leading, "+"))
	}
}

func (b *leaders) leave(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leading = slices.DeleteFunc(b.leading, func(n string) bool { return n == name })
}

func (b *leaders) leader(name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.leading, []string{name}) {
		return fmt.Errorf("leading: %q, want %s", b.leading, name)
	}
	return nil
}

// contend takes part in the election until end is called, which releases the lock. It renews the
// lease often, and has time to do so on a slow machine. The next leader may begin before Run has
// the answer to its release, so end counts as the time at which the contender stops to lead.
func (b *leaders) contend(t *testing.T, name string, lock resourcelock.Interface) (end func()) {
	t.Helper()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 14 * time.Second,
		RetryPeriod: 200 * time.Millisecond, ReleaseOnCancel: true,
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
	end = func() { b.leave(name); cancel(); <-done }
	t.Cleanup(end)
	return end
}

// O-3: during an upgrade from v1 to v6 with --leader-election-type=endpoints as the step between,
// and back, there is never more than one leader.
func TestUpgradeFromEndpoints(t *testing.T) {
	api := rolestest.LiveCluster(t)
	newest := func(args ...string) resourcelock.Interface {
		p, err := parseProvisioner(t, append(
			args, "--leader-election-namespace=default", "--leader-election-renew-deadline=14s",
		)...)
		if err != nil {
			t.Fatal(err)
		}
		lock, err := p.Election.NewLock(api, "driver", nil)
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
	b := &leaders{}
	old := b.contend(t, "v1", v1("v1"))
	rolestest.Eventually(t, "v1 leads", func() error { return b.leader("v1") })
	both := b.contend(t, "both", newest("--enable-leader-election"))
	other := b.contend(t, "other", newest("--leader-election", "--leader-election-type=endpoints"))
	time.Sleep(3 * time.Second) // nothing may happen, though each contender tries several times meanwhile
	if err := b.leader("v1"); err != nil {
		t.Fatal(err)
	}
	old()
	rolestest.Eventually(t, "one of the two leads", func() error {
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
	rolestest.Eventually(t, "a new leader", func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.leading) == 0 {
			return fmt.Errorf("no contender leads")
		}
		return nil
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	// v1 and v6 have different locks; there is one leader only while a contender with both takes part.
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

// ST-15: after the loss of the lease Run returns an error soon after the next leader could begin.
func TestLostLease(t *testing.T) {
	api := rolestest.LiveCluster(t)
	socket, _ := rolestest.LiveDriver(t)
	p, _ := liveProvisioner(t, api, socket)
	user, err := client.New(api, client.Options{Scheme: kube.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Run(t.Context()) }()
	rolestest.Eventually(t, "a leader", func() error { return holds(t, user, p.Election.Identity()) })
	usurper, err := (&process.Election{Holder: "usurper", Namespace: "default", RenewDeadline: time.Second}).NewLock(api, process.DriverLeaseName(driver.DefaultName), nil)
	if err != nil {
		t.Fatal(err)
	}
	rolestest.Eventually(t, "the end of the one that lost", func() error {
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
