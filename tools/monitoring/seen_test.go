package monitoring

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"sigs.k8s.io/yaml"
)

// needs are the alerts that this test does not cause, with the reason.
var needs = map[string]string{}

// Each alert is seen firing: `purser up` and single roles run beside a driver whose volumes fail, each state
// that an alert is about is caused, and the rules of deploy/monitoring are evaluated as they are over the
// metrics that the roles served, in Prometheus' own engine. The clock of the rules is invented: what the roles
// serve after an event counts as read at each of the next few minutes, so hours of the rules pass in minutes.
// ALERTS=whole runs it.
func TestAlertsAreSeen(t *testing.T) {
	if os.Getenv("ALERTS") != "whole" {
		t.Skip("set ALERTS=whole, as `make test-alerts` does: it takes minutes")
	}
	record := newRecorder(metricsOf(t, ofAlerts(t)))
	driver := &faultyDriver{name: "a.example", controller: []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME, csi.ControllerServiceCapability_RPC_MODIFY_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_GET_VOLUME_HEALTH,
	}}
	s := newScene(t, driver, record)
	record.extra = s.phases
	s.cause()

	input, length := record.input()
	seen := firings(t, input, length)
	var file alerts
	if err := yaml.UnmarshalStrict([]byte(read(t, "deploy", "monitoring", "alerts.yaml")), &file); err != nil {
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

const (
	// rounds is how often something new fails: for longer than half an hour, for which alerts wait.
	rounds = 12
	// apart is the length of a round: a rate over five minutes sees each.
	apart = 3
)

// growth is a counter, or the sum of some, that must have grown before a round is recorded.
type growth struct {
	metric string
	labels []string
	by     float64
}

const (
	calls   = "csi_sidecar_operations_seconds_count"
	renewed = "leader_election_slowpath_total"
)

func failedCalls(method, code string) growth {
	return growth{calls, []string{fmt.Sprintf("method_name=%q", method), fmt.Sprintf("grpc_status_code=%q", code)}, 1}
}

// eachRound are the counters of what fails anew in each round.
var eachRound = []growth{
	{"controller_persistentvolumeclaim_provision_failed_total", []string{`class="create-fails"`}, 1},
	{"controller_persistentvolume_delete_failed_total", []string{`class="delete-fails"`}, 1},
	failedCalls("/csi.v1.Controller/CreateVolume", "Unavailable"),
	failedCalls("/csi.v1.Controller/ControllerExpandVolume", "Internal"),
	failedCalls("/csi.v1.Controller/ControllerModifyVolume", "Internal"),
	failedCalls("/csi.v1.Controller/CreateSnapshot", "Internal"),
	failedCalls("/csi.v1.Controller/ControllerPublishVolume", "Internal"),
	{
		"csi_operations_seconds_count",
		[]string{`method_name="/csi.v1.Node/NodePublishVolume"`, `grpc_status_code="Internal"`},
		1,
	},
	// More than 0.05 a second, as the minutes of the rules pass.
	{renewed, []string{`name="b-example"`}, 60 * apart * 0.06},
}

// round does something, waits until its traces are in the metrics, and records these for a round. What does
// not show is left to the alerts, which then are not seen.
func (s *scene) round(what string, traces []growth, do func()) {
	s.Helper()
	before := s.record.read(s.Context())
	do()
	found, still := s.grown(before, traces)
	if len(still) > 0 {
		s.Logf("%s: not in the metrics: %q", what, still)
	}
	s.record.record(found, apart)
}

// grown waits until counters have grown since metrics were read. It returns what the roles serve then, and
// the counters that have not grown in time.
func (s *scene) grown(before map[string]float64, traces []growth) (found map[string]float64, still []string) {
	_ = s.poll(20*time.Second, func() error {
		found, still = s.record.read(s.Context()), nil
		for _, g := range traces {
			if sum(found, g.metric, g.labels...) < sum(before, g.metric, g.labels...)+g.by {
				still = append(still, fmt.Sprint(g.metric, g.labels))
			}
		}
		if len(still) > 0 {
			return fmt.Errorf("%q have not grown", still)
		}
		return nil
	})
	return found, still
}

// shows waits until a metric is more than 0, and records what is there then for some minutes.
func (s *scene) shows(metric string, minutes int, labels ...string) {
	s.Helper()
	s.eventually(metric, 3*time.Minute, func() error {
		found := s.record.read(s.Context())
		if sum(found, metric, labels...) <= 0 {
			return errors.New("it is 0")
		}
		s.record.record(found, minutes)
		return nil
	})
}

// cause brings about one state after the other.
func (s *scene) cause() {
	for _, of := range faults {
		s.class(of)
	}
	s.attributes("m1")
	s.pod("full", isFull)
	s.pod("fills", fillsUp)
	s.failedVolume()
	s.claim("unhealthy", unhealthy)
	pool := s.smallPool()
	other := s.otherDriver()
	await := []string{"full", "fills", "snapshot", "unhealthy", "unmount-0", "unmount-1", "unmount-2"}
	s.claim("snapshot", snapshotFail)
	for i := range 3 {
		s.pod(fmt.Sprint("unmount-", i), unmountFails)
	}
	for i := range rounds {
		for name, of := range map[string]fault{"delete": deleteFails, "expand": expandFails, "modify": modifyFails} {
			s.claim(fmt.Sprint(name, "-", i), of)
			await = append(await, fmt.Sprint(name, "-", i))
		}
	}
	for _, name := range await {
		s.awaitBound(name)
	}
	for i := range 3 {
		s.awaitInUse(fmt.Sprint("unmount-", i))
	}
	monitor := s.healthMonitor()
	s.step("everything is prepared")
	s.failures(pool, other)
	s.step("calls have failed for long enough")
	other.changeLeaders()
	s.step("the leader has changed")
	s.outOfService()
	s.unwritableJournal()
	s.fullJournal()
	s.step("the journal is full")
	s.fillsUp()
	other.awaitOrphans()
	s.step("volumes fill up")
	s.record.record(s.record.read(s.Context()), 65) // it stays so for more than an hour
	for _, command := range append(other.running(), monitor, s.up) {
		s.stop(command)
	}
	pool.end()
	s.record.record(s.record.read(s.Context()), 15) // nothing is there to read
	s.step("nothing runs any more")
}

// step says how long it took until now.
func (s *scene) step(what string) { s.Logf("%5.1fs: %s", time.Since(s.began).Seconds(), what) }

// failures has calls of each kind fail anew in each round.
func (s *scene) failures(pool *pool, other *others) {
	end := other.disturbLease()
	defer end()
	for i := range rounds {
		s.round(fmt.Sprint("round ", i), eachRound, func() {
			s.claim(fmt.Sprint("create-", i), createFails)
			s.claim(fmt.Sprint("answer-", i), noAnswer)
			s.must(s.call(http.MethodDelete, fmt.Sprint(claims, "/delete-", i), isYAML, ""))
			s.must(s.call(
				http.MethodPatch, fmt.Sprint(claims, "/expand-", i), isMerge,
				`{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`,
			))
			s.must(s.call(
				http.MethodPatch, fmt.Sprint(claims, "/modify-", i), isMerge,
				`{"spec":{"volumeAttributesClassName":"m1"}}`,
			))
			s.snapshot(fmt.Sprint("s", i))
			s.pod(fmt.Sprint("attach-", i), attachFails)
			s.pod(fmt.Sprint("mount-", i), mountFails)
			s.foreignBinding(i)
			if i%4 == 0 { // their node still has them
				s.must(s.call(http.MethodDelete,
					fmt.Sprintf("%s/namespaces/default/pods/unmount-%d?gracePeriodSeconds=0", core, i/4), isYAML, ""))
			}
			pool.fill(i)
			other.step(i)
		})
	}
}

func (s *scene) attributes(names ...string) {
	for _, name := range names {
		s.must(s.call(http.MethodPost, storage+"/volumeattributesclasses", isYAML,
			fmt.Sprintf(`{apiVersion: storage.k8s.io/v1,
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
	s.must(s.call(http.MethodPost, core+"/persistentvolumes", isYAML,
		fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolume,
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

// awaitInUse waits until the node reports the volume of a claim in use.
func (s *scene) awaitInUse(name string) {
	s.Helper()
	s.eventually("the volume of "+name, time.Minute, func() error {
		claim, err := s.call(http.MethodGet, claims+"/"+name, isYAML, "")
		if err != nil {
			return err
		}
		node, err := s.call(http.MethodGet, core+"/nodes/purser", isYAML, "")
		if err != nil {
			return err
		}
		var object struct{ Metadata struct{ UID string } }
		if err := json.Unmarshal(claim, &object); err != nil {
			return err
		}
		var status struct {
			Status struct{ VolumesInUse []string }
		}
		if err := json.Unmarshal(node, &status); err != nil {
			return err
		}
		if !strings.Contains(fmt.Sprint(status.Status.VolumesInUse), object.Metadata.UID) {
			return fmt.Errorf("%q are in use", status.Status.VolumesInUse)
		}
		return nil
	})
}

// foreignBinding binds the claim of the last round as another binder does, and creates the next one: a
// manager that wrote in the second of the creation may be a restore.
func (s *scene) foreignBinding(i int) {
	name := fmt.Sprint("foreign-", i)
	s.must(s.call(http.MethodPost, claims, isYAML, claimText(name, name)))
	if i > 0 {
		name = fmt.Sprint("foreign-", i-1)
		s.must(s.call(http.MethodPatch, claims+"/"+name+"?fieldManager=kube-controller-manager", isMerge, fmt.Sprintf(
			`{"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":"yes"}},"spec":{"volumeName":%q}}`, name)))
	}
}

// outOfService taints the node of the volumes that cannot be unmounted.
func (s *scene) outOfService() {
	s.must(s.call(http.MethodPatch, core+"/nodes/purser", "application/strategic-merge-patch+json",
		`{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","value":"nodeshutdown","effect":"NoExecute"}]}}`))
	s.shows("attach_detach_controller_attachdetach_controller_forced_detaches", apart)
	s.must(s.call(http.MethodPatch, core+"/nodes/purser", isMerge, `{"spec":{"taints":null}}`))
}

// unwritableJournal has the API server refuse writes of the journal for a while.
func (s *scene) unwritableJournal() {
	s.forbid(
		"no-journal", "coordination.k8s.io", "leases", "!object.metadata.name.startsWith('purser-intents-a-example')",
	)
	const metric, label = "purser_decisions_total", `reason="ProvisioningHeldUp"`
	for i := range 8 { // a second attempt between two of them, so that they are held up one after the other
		before := s.record.read(s.Context())
		s.claim(fmt.Sprint("held-", i), works)
		if _, still := s.grown(before, []growth{{metric, []string{`reason="WriteFailed"`}, 2}}); len(still) > 0 {
			s.Logf("claim held-%d does not fail twice: %q", i, still)
		}
	}
	s.shows(metric, apart, label)
	for range 5 {
		s.round("the journal is not writable", []growth{{metric, []string{label}, 1}}, func() {})
	}
	s.allow("no-journal")
}

// forbid installs a policy that refuses writes of objects.
func (s *scene) forbid(name, group, resource, allowed string) {
	s.must(s.call(http.MethodPost, policies+"/validatingadmissionpolicies", isYAML,
		fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1,
kind: ValidatingAdmissionPolicy, metadata: {name: %s}, spec: {matchConstraints: {resourceRules: [{apiGroups: [%s],
apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [%s]}]}, validations: [{expression: "%s"}]}}`, name,
			group, resource, allowed)))
	s.must(s.call(http.MethodPost, policies+"/validatingadmissionpolicybindings", isYAML, fmt.Sprintf(
		`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: %s},
spec: {policyName: %s, validationActions: [Deny]}}`, name, name)))
}

func (s *scene) allow(name string) {
	s.must(s.call(http.MethodDelete, policies+"/validatingadmissionpolicybindings/"+name, isYAML, ""))
	s.must(s.call(http.MethodDelete, policies+"/validatingadmissionpolicies/"+name, isYAML, ""))
}

// fullJournal has so many requests without an answer that the journal is nearly full. The parameters of their
// classes are random, so that they do not compress, and as long as CSI allows.
func (s *scene) fullJournal() {
	const most, nearly = 60, 165_000
	for i := range most {
		if sum(s.record.read(s.Context()), "purser_journal_bytes") > nearly {
			break
		}
		noise := make([]byte, 2700)
		_, _ = rand.Read(noise)
		name := fmt.Sprint("noise-", i)
		s.must(s.call(http.MethodPost, storage+"/storageclasses", isYAML,
			fmt.Sprintf(`{apiVersion: storage.k8s.io/v1, kind: StorageClass,
metadata: {name: %s}, provisioner: a.example, parameters: {fault: %s, noise: %q}}`, name, noAnswer,
				base64.StdEncoding.EncodeToString(noise))))
		s.claim(name, fault(name))
	}
	s.eventually("the journal is nearly full", time.Minute, func() error {
		found := s.record.read(s.Context())
		if size := sum(found, "purser_journal_bytes"); size < nearly {
			return fmt.Errorf("%g bytes", size)
		}
		s.record.record(found, 7)
		return nil
	})
}

// fillsUp waits until the driver has said twice how full a volume is.
func (s *scene) fillsUp() {
	const metric, label = "kubelet_volume_stats_available_bytes", `persistentvolumeclaim="fills"`
	s.shows(metric, apart, label)
	first := sum(s.record.read(s.Context()), metric, label)
	s.eventually("the volume fills up", 3*time.Minute, func() error {
		if now := sum(s.record.read(s.Context()), metric, label); now >= first {
			return fmt.Errorf("%g bytes are available", now)
		}
		return nil
	})
}
