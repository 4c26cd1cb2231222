package monitoring

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"sigs.k8s.io/yaml"
)

// needs are the alerts that this test does not cause, with the reason.
var needs = map[string]string{}

// Each alert is seen firing: `purser up` and single roles run beside a driver whose volumes fail, each state
// that an alert is about is caused, and the rules are evaluated over the metrics that the roles served, in
// Prometheus' own engine. An hour of the rules is a minute here; nothing else of them is changed.
// ALERTS=whole runs it, which takes about five minutes.
func TestAlertsAreSeen(t *testing.T) {
	if os.Getenv("ALERTS") != "whole" {
		t.Skip("set ALERTS=whole, as `make test-alerts` does: it takes minutes")
	}
	text := read(t, "deploy", "monitoring", "alerts.yaml")
	record := newRecorder(metricsOf(t, ofAlerts(t)))
	driver := &faultyDriver{name: "a.example", controller: []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME, csi.ControllerServiceCapability_RPC_MODIFY_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
	}}
	s := newScene(t, driver, record)
	record.extra = s.phases
	ctx, end := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	reading.Go(func() { record.run(ctx) })
	s.cause()
	end()
	reading.Wait()

	input, length := record.input()
	seen := firings(t, scaled(t, text), input, length)
	var file alerts
	if err := yaml.UnmarshalStrict([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	var missing []string
	for _, rule := range file.Groups[0].Rules {
		at, is := seen[rule.Alert]
		switch reason := needs[rule.Alert]; {
		case is:
			t.Logf("%-32s fired after %s", rule.Alert, at)
		case reason != "":
			t.Logf("%-32s not caused here: %s", rule.Alert, reason)
		default:
			missing = append(missing, rule.Alert)
		}
	}
	if len(missing) > 0 {
		t.Errorf("not seen: %q", missing)
		keep := filepath.Join(os.TempDir(), "alerts-seen.txt")
		_ = os.WriteFile(keep, []byte(input), 0o600)
		t.Logf("what was read is in %s", keep)
	}
}

// pump is how often something new fails: the retries of what has failed become rare.
const pump = 3 * time.Second

// cause brings about one state after the other. Those that need nothing but time go on together.
func (s *scene) cause() {
	for _, of := range faults {
		s.class(of)
	}
	s.attributes("m1", "m2")
	s.pod("full", isFull)
	s.pod("fills", fillsUp)
	s.failedVolume()
	pool := s.smallPool()
	other := s.otherDriver()
	s.claim("expand", expandFails)
	s.claim("modify", modifyFails)
	s.claim("snapshot", snapshotFail)
	for i := range 3 {
		s.pod(fmt.Sprint("unmount-", i), unmountFails)
	}
	for _, name := range []string{"expand", "modify", "snapshot", "unmount-0", "unmount-1", "unmount-2", "full", "fills"} {
		s.awaitBound(name)
	}
	s.during(2*time.Minute, func(i int) {
		s.claim(fmt.Sprint("create-", i), createFails)
		s.claim(fmt.Sprint("answer-", i), noAnswer)
		s.claim(fmt.Sprint("delete-", i), deleteFails)
		if i > 3 {
			s.must(s.call(http.MethodDelete, fmt.Sprint(claims, "/delete-", i-4), isYAML, ""))
		}
		s.must(s.call(http.MethodPatch, claims+"/expand", isMerge, fmt.Sprintf(`{"spec":{"resources":{"requests":{"storage":"%dGi"}}}}`, 2+i)))
		s.must(s.call(http.MethodPatch, claims+"/modify", isMerge, fmt.Sprintf(`{"spec":{"volumeAttributesClassName":"m%d"}}`, 1+i%2)))
		s.snapshot(fmt.Sprint("s", i))
		s.pod(fmt.Sprint("attach-", i), attachFails)
		s.pod(fmt.Sprint("mount-", i), mountFails)
		s.foreignBinding(i)
		if i == 5 || i == 10 || i == 15 { // their node still has them
			s.must(s.call(http.MethodDelete, fmt.Sprintf("%s/namespaces/default/pods/unmount-%d?gracePeriodSeconds=0", core, i/5-1), isYAML, ""))
		}
		pool.fill(i)
		other.step(i)
	})
	s.outOfService()
	s.unwritableJournal()
	s.fullJournal()
	for _, command := range append(other.running(), s.up) {
		s.stop(command)
	}
	pool.end()
	time.Sleep(40 * tick) // nothing is there to read
}

// during calls a function every few seconds.
func (s *scene) during(length time.Duration, do func(i int)) {
	every := time.NewTicker(pump)
	defer every.Stop()
	for i := range int(length / pump) {
		do(i)
		<-every.C
	}
}

func (s *scene) attributes(names ...string) {
	for _, name := range names {
		s.must(s.call(http.MethodPost, storage+"/volumeattributesclasses", isYAML, fmt.Sprintf(`{apiVersion: storage.k8s.io/v1,
kind: VolumeAttributesClass, metadata: {name: %s}, driverName: a.example, parameters: {tier: %s}}`, name, name)))
	}
}

func (s *scene) snapshot(name string) {
	s.must(s.call(http.MethodPost, "/apis/snapshot.storage.k8s.io/v1/namespaces/default/volumesnapshots", isYAML,
		fmt.Sprintf(`{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshot, metadata: {name: %s},
spec: {source: {persistentVolumeClaimName: snapshot}}}`, name)))
}

// static creates a volume that no driver serves.
func (s *scene) static(name, class, policy string) {
	s.must(s.call(http.MethodPost, core+"/persistentvolumes", isYAML, fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolume,
metadata: {name: %s}, spec: {storageClassName: %s, capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce],
persistentVolumeReclaimPolicy: %s, hostPath: {path: /nowhere}}}`, name, class, policy)))
}

// failedVolume has a volume become Failed: no plugin deletes a released hostPath.
func (s *scene) failedVolume() {
	s.static("fails", "static", "Delete")
	s.must(s.call(http.MethodPost, claims, isYAML, claimText("fails", "static")))
	s.awaitBound("fails")
	s.must(s.call(http.MethodDelete, claims+"/fails", isYAML, ""))
}

// foreignBinding binds a claim as another binder does.
func (s *scene) foreignBinding(i int) {
	name := fmt.Sprint("foreign-", i)
	s.must(s.call(http.MethodPost, claims, isYAML, claimText(name, name)))
	_, _ = s.call(http.MethodPatch, claims+"/"+name+"?fieldManager=kube-controller-manager", isMerge, fmt.Sprintf(
		`{"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":"yes"}},"spec":{"volumeName":%q}}`, name))
}

// outOfService taints the node of the volumes that cannot be unmounted, one after the other.
func (s *scene) outOfService() {
	s.must(s.call(http.MethodPatch, core+"/nodes/purser", "application/strategic-merge-patch+json",
		`{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","value":"nodeshutdown","effect":"NoExecute"}]}}`))
	time.Sleep(10 * tick) // the counter is there
	s.must(s.call(http.MethodDelete, core+"/namespaces/default/pods/full?gracePeriodSeconds=0", isYAML, ""))
	time.Sleep(20 * tick) // it counts on
}

// unwritableJournal has the API server refuse writes of the journal for a while.
func (s *scene) unwritableJournal() {
	s.forbid("no-journal", "coordination.k8s.io", "leases", "!object.metadata.name.startsWith('purser-intents-a-example')")
	for i := range 8 {
		s.claim(fmt.Sprint("held-", i), works)
		time.Sleep(pump) // each is one more decision
	}
	s.allow("no-journal")
}

// forbid installs a policy that refuses writes of objects.
func (s *scene) forbid(name, group, resource, allowed string) {
	s.must(s.call(http.MethodPost, policies+"/validatingadmissionpolicies", isYAML, fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1,
kind: ValidatingAdmissionPolicy, metadata: {name: %s}, spec: {matchConstraints: {resourceRules: [{apiGroups: [%s],
apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [%s]}]}, validations: [{expression: "%s"}]}}`, name, group, resource, allowed)))
	s.must(s.call(http.MethodPost, policies+"/validatingadmissionpolicybindings", isYAML, fmt.Sprintf(
		`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: %s},
spec: {policyName: %s, validationActions: [Deny]}}`, name, name)))
}

func (s *scene) allow(name string) {
	s.must(s.call(http.MethodDelete, policies+"/validatingadmissionpolicybindings/"+name, isYAML, ""))
	s.must(s.call(http.MethodDelete, policies+"/validatingadmissionpolicies/"+name, isYAML, ""))
}

// fullJournal has so many requests without an answer that the journal is nearly full.
func (s *scene) fullJournal() {
	const many, at = 3600, 8
	var work sync.WaitGroup
	for w := range at {
		work.Go(func() {
			for i := w; i < many; i += at {
				_, _ = s.call(http.MethodPost, claims, isYAML, claimText(fmt.Sprint("many-", i), string(noAnswer)))
			}
		})
	}
	work.Wait()
	end := time.Now().Add(4 * time.Minute)
	for s.record.last("purser_journal_bytes") < 170_000 && time.Now().Before(end) {
		time.Sleep(tick)
	}
	time.Sleep(15 * tick) // it stays so
}

// others are single roles beside another driver, as sidecars run.
type others struct {
	*scene

	driver   *faultyDriver
	leaders  [2]*exec.Cmd
	standby  *exec.Cmd
	restarts int
}

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
	s.must(s.call(http.MethodPost, leases, isYAML, fmt.Sprintf(`{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: c-example},
spec: {holderIdentity: another, leaseDurationSeconds: 3600, acquireTime: %q, renewTime: %q}}`, micro(), micro())))
	s.must(s.call(http.MethodPost, storage+"/storageclasses", isYAML,
		`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: b}, provisioner: b.example, volumeBindingMode: WaitForFirstConsumer}`))
	for i := range o.leaders {
		o.leaders[i] = o.provisioner("b", fmt.Sprint("b-", i))
	}
	o.standby = o.provisioner("c", "c")
	return o
}

func micro() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000000Z") }

func (o *others) provisioner(driver, name string) *exec.Cmd {
	o.Helper()
	address := o.freeAddress()
	log, err := os.Create(filepath.Join(o.dir, name+".log"))
	if err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() { _ = log.Close() })
	command := o.start(log, program(o.T, "purser"), "csi-provisioner",
		"--csi-address=unix://"+filepath.Join(o.dir, driver+".sock"), "--http-endpoint="+address, "--leader-election",
		"--leader-election-namespace=purser-system", "--leader-election-lease-duration=9s", "--leader-election-renew-deadline=8s",
		"--leader-election-retry-period=500ms", "--orphan-audit-interval=10s", "--enable-capacity", "--capacity-ownerref-level=-1",
		"--capacity-poll-interval=2s")
	o.record.set(name, address)
	return command
}

// step disturbs the two provisioners: first their lease, then who leads, then their capacities.
func (o *others) step(i int) {
	switch {
	case i < 10:
		for range 5 {
			_, _ = o.call(http.MethodPatch, leases+"/b-example", isMerge, fmt.Sprintf(`{"metadata":{"annotations":{"now":%q}}}`, micro()))
			time.Sleep(pump / 6) // between two renewals
		}
	case i == 10:
		o.driver.noCapacity.Store(false)
		o.forbid("no-capacity", "storage.k8s.io", "csistoragecapacities", "false")
	case i >= 22 && i%3 == 0: // the orphan was there for long enough
		k := o.restarts % 2
		o.stop(o.leaders[k])
		o.leaders[k] = o.provisioner("b", fmt.Sprint("b-", k))
		o.restarts++
	}
}

func (o *others) running() []*exec.Cmd { return append(slices.Clone(o.leaders[:]), o.standby) }
