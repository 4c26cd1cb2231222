package monitoring

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// others are single roles beside another driver, as sidecars run.
type others struct {
	*scene

	driver  *faultyDriver
	leaders [2]*exec.Cmd
	standby *exec.Cmd
}

const (
	leading = "leader_election_master_status"
	renewal = 100 * time.Millisecond
)

// otherDriver starts two provisioners of a driver, of which one leads, with all flags that metrics depend on,
// and one whose lease another program holds.
func (s *scene) otherDriver() *others {
	can := []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
	}
	o := &others{scene: s, driver: &faultyDriver{name: "b.example", controller: can, orphan: true}}
	o.driver.noCapacity.Store(true)
	o.driver.serve(s.T, filepath.Join(s.dir, "b.sock"))
	held := &faultyDriver{name: "c.example", controller: can}
	held.serve(s.T, filepath.Join(s.dir, "c.sock"))
	s.must(s.call(http.MethodPost, leases, isYAML,
		fmt.Sprintf(`{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: c-example},
spec: {holderIdentity: another, leaseDurationSeconds: 3600, acquireTime: %q, renewTime: %q}}`, micro(), micro())))
	s.must(s.call(http.MethodPost, storage+"/storageclasses", isYAML,
		`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: b}, provisioner: b.example, volumeBindingMode: WaitForFirstConsumer}`))
	o.forbid("no-capacity", "storage.k8s.io", "csistoragecapacities", "false")
	for i := range o.leaders {
		o.leaders[i] = o.provisioner("b", fmt.Sprint("b-", i))
	}
	o.standby = o.provisioner("c", "c")
	return o
}

func micro() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000000Z") }

func (o *others) provisioner(driver, name string) *exec.Cmd {
	o.Helper()
	return o.role(name, "csi-provisioner", "--csi-address=unix://"+filepath.Join(o.dir, driver+".sock"),
		"--leader-election", "--leader-election-namespace=purser-system", "--leader-election-lease-duration=9s",
		"--leader-election-renew-deadline=8s", "--leader-election-retry-period="+renewal.String(),
		"--orphan-audit-interval=2s", "--enable-capacity", "--capacity-ownerref-level=-1",
		"--capacity-poll-interval=1s")
}

// healthMonitor starts the monitor beside the driver of `up`, which runs none, and waits until it has found the
// volume with a problem.
func (s *scene) healthMonitor() *exec.Cmd {
	s.Helper()
	monitor := s.role("monitor", "csi-external-health-monitor-controller",
		"--csi-address=unix://"+filepath.Join(s.dir, "a.sock"), "--monitor-interval=1s")
	s.shows("purser_volume_health_volumes", 1, `status="Inaccessible"`)
	return monitor
}

// disturbLease writes the lease of the two provisioners between their renewals, until the returned function is
// called.
func (o *others) disturbLease() (end func()) {
	ctx, cancel := context.WithCancel(o.Context())
	var writing sync.WaitGroup
	writing.Go(func() {
		twice := time.NewTicker(renewal / 2) // for each renewal
		defer twice.Stop()
		for {
			_, _ = o.call(
				http.MethodPatch, leases+"/b-example", isMerge,
				fmt.Sprintf(`{"metadata":{"annotations":{"now":%q}}}`, micro()),
			)
			select {
			case <-ctx.Done():
				return
			case <-twice.C:
			}
		}
	})
	return func() { cancel(); writing.Wait() }
}

// step has the driver say its capacity, in time. The API server refuses to store it.
func (o *others) step(i int) {
	if i == rounds/2-1 {
		o.driver.noCapacity.Store(false)
	}
}

// changeLeaders restarts the leader three times: each time two processes change.
func (o *others) changeLeaders() {
	for range 3 {
		found := o.record.read(o.Context())
		k := 0
		if sum(found, leading, `instance="b-1"`) == 1 {
			k = 1
		}
		o.stop(o.leaders[k])
		o.shows(leading, 1, fmt.Sprintf(`instance="b-%d"`, 1-k))
		o.leaders[k] = o.provisioner("b", fmt.Sprint("b-", k))
		o.eventually("the other provisioner", time.Minute, func() error {
			found := o.record.read(o.Context())
			if !slices.ContainsFunc(slices.Collect(maps.Keys(found)), func(series string) bool {
				return strings.HasPrefix(series, leading) && strings.Contains(series, fmt.Sprintf(`instance="b-%d"`, k))
			}) {
				return errors.New("it serves no metrics yet")
			}
			o.record.record(found, 1)
			return nil
		})
	}
}

// awaitOrphans waits until the provisioner that leads now has found the volume without a PersistentVolume.
func (o *others) awaitOrphans() { o.shows("purser_orphan_volumes", 1) }

func (o *others) running() []*exec.Cmd { return append(slices.Clone(o.leaders[:]), o.standby) }
