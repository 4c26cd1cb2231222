package live

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile"
	"github.com/purser-csi/purser/internal/roles/driver"
	"github.com/purser-csi/purser/internal/roles/healthmonitor"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/e2e/audit"
	"github.com/purser-csi/purser/test/rolestest"
	"github.com/purser-csi/purser/test/scripted"
)

// patient is a driver whose volumes have the problems that a test gives them.
type patient struct {
	*scriptedDriver

	mu   sync.Mutex
	sick map[string][]*csi.VolumeHealth_VolumeHealthEntry // by handle
}

func newPatient(lists bool) *patient {
	d := &patient{
		scriptedDriver: &scriptedDriver{name: "csi.example"}, sick: map[string][]*csi.VolumeHealth_VolumeHealthEntry{},
	}
	d.capabilities = []csi.ControllerServiceCapability_RPC_Type{csi.ControllerServiceCapability_RPC_GET_VOLUME_HEALTH}
	if lists {
		d.capabilities = append(d.capabilities, csi.ControllerServiceCapability_RPC_LIST_VOLUME_HEALTH)
	}
	d.self = &patientServer{patient: d}
	return d
}

func (d *patient) is(handle string, problems ...*csi.VolumeHealth_VolumeHealthEntry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sick[handle] = problems
}

// patientServer serves the controller's calls.
type patientServer struct {
	csi.UnimplementedControllerServer

	patient *patient
}

func (s *patientServer) ControllerGetCapabilities(
	ctx context.Context, r *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	return s.patient.ControllerGetCapabilities(ctx, r)
}

func (s *patientServer) ControllerGetVolumeHealth(
	_ context.Context, r *csi.ControllerGetVolumeHealthRequest,
) (*csi.ControllerGetVolumeHealthResponse, error) {
	s.patient.mu.Lock()
	defer s.patient.mu.Unlock()
	return &csi.ControllerGetVolumeHealthResponse{VolumeHealth: &csi.VolumeHealth{
		VolumeId: r.GetVolumeId(), HealthStatuses: s.patient.sick[r.GetVolumeId()],
	}}, nil
}

func (s *patientServer) ControllerListVolumeHealth(
	context.Context, *csi.ControllerListVolumeHealthRequest,
) (*csi.ControllerListVolumeHealthResponse, error) {
	s.patient.mu.Lock()
	defer s.patient.mu.Unlock()
	answer := &csi.ControllerListVolumeHealthResponse{}
	for handle, problems := range s.patient.sick {
		if len(problems) > 0 {
			answer.Entries = append(answer.Entries, &csi.VolumeHealth{VolumeId: handle, HealthStatuses: problems})
		}
	}
	return answer, nil
}

var lostImage = &csi.VolumeHealth_VolumeHealthEntry{
	Status: csi.VolumeHealthErrorType_INACCESSIBLE, Reason: "ImageMissing", Message: "the image is missing",
}

const monitorAccount = healthmonitor.Name

// monitored creates a bound claim of the driver.
func (p liveCluster) monitored(name, driver string) *corev1.PersistentVolumeClaim {
	p.Helper()
	claim := p.boundPair(name, driver)
	pv := &corev1.PersistentVolume{ObjectMeta: metav1Name("pv-" + name)}
	await(p, "the volume of "+name, pv, func(*corev1.PersistentVolume) bool { return true })
	before := pv.DeepCopy()
	pv.Status.Phase = corev1.VolumeBound
	if err := p.user.Status().Patch(p.Context(), pv, client.MergeFrom(before)); err != nil {
		p.Fatal(err)
	}
	return claim
}

// hasEvent returns nil if the claim has an event of the monitor of csi.example.
func (p liveCluster) hasEvent(claim *corev1.PersistentVolumeClaim, reason, words string) error {
	return p.hasEventOf("csi-pv-monitor-controller-csi.example", claim, reason, words)
}

func (p liveCluster) hasEventOf(source string, claim *corev1.PersistentVolumeClaim, reason, words string) error {
	var events corev1.EventList
	if err := p.user.List(p.Context(), &events, client.InNamespace(claim.Namespace)); err != nil {
		return err
	}
	var others []string
	for _, e := range events.Items {
		if e.InvolvedObject.UID == claim.UID && e.Reason == reason && strings.Contains(e.Message, words) &&
			e.Source.Component == source {
			return nil
		}
		others = append(others, e.Source.Component+" "+e.Reason+": "+e.Message)
	}
	return fmt.Errorf("claim %s has no event %s among %q", claim.Name, reason, others)
}

// HM-14, HM-30, HM-33, HM-42, HM-44, HM-49: with the permissions that it ships with, which are those of
// upstream's newest role, the monitor writes the status and emits the events of a problem that begins and
// ends. There is one write for each.
func TestHealthMonitor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ lists, hosted bool }{
		"a driver that lists": {lists: true}, "a driver that does not list": {},
		"as a component of sidecars": {lists: true, hosted: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newLiveClusterOn(t, rolestest.StartServer(t, cluster.Config{
				ExtraArgs: map[cluster.Component][]string{cluster.APIServer: {"--feature-gates=CSIVolumeHealth=true"}},
			}))
			d := newPatient(tc.lists)
			sick, well := p.monitored("sick", d.name), p.monitored("well", d.name)
			begin, account := p.mark(), monitorAccount
			if tc.hosted {
				account = "sidecars"
				p.sidecars(d.serve(t), "--controllers=health-monitor", "--list-volumes-interval=1s")
			} else {
				m, log := healthmonitor.New(), &rolestest.Log{}
				m.Version, m.API, m.Log = "test", p.as(account), log.Logger()
				p.begin(m, &m.Started, append(slices.Clone(quickly), "--csi-address="+d.serve(t),
					"--list-volumes-interval=1s", "--monitor-interval=1s", "--enable-node-watcher=true"))
			}
			slow := &csi.VolumeHealth_VolumeHealthEntry{
				Status: csi.VolumeHealthErrorType_INACCESSIBLE, Reason: "NoDevice",
			}
			d.is("h-sick", lostImage, slow)
			await(p, "the claim has the conditions", sick, func(c *corev1.PersistentVolumeClaim) bool {
				h := c.Status.HealthStatus
				return h != nil && len(h.HealthConditions) == 2 && !h.LastTransitionTime.IsZero() &&
					h.HealthConditions[0].Reason == "ImageMissing" && h.HealthConditions[1].Reason == "NoDevice"
			})
			rolestest.Eventually(t, "the event of the problem", func() error {
				return p.hasEvent(sick, "VolumeConditionAbnormal", "Inaccessible (ImageMissing): the image is missing")
			})
			d.is("h-sick")
			await(p, "the claim has no condition", sick, func(c *corev1.PersistentVolumeClaim) bool {
				return c.Status.HealthStatus == nil
			})
			rolestest.Eventually(t, "the event of its end", func() error {
				return p.hasEvent(sick, "VolumeConditionNormal", "The Volume returns to the healthy state")
			})
			if p.hasEvent(well, "VolumeConditionAbnormal", "") == nil {
				t.Error("the other claim has an event")
			}
			if writes := p.statusWrites(begin, p.mark(), account); writes != 2 {
				t.Errorf("%d writes of status, want 2", writes)
			}
		})
	}
}

// statusWrites counts the monitor's writes of the status of claims.
func (p liveCluster) statusWrites(from, to audit.Mark, account string) (writes int) {
	p.Helper()
	for request, answers := range p.asked(from, to, account) {
		if request.Verb == "patch" && request.Resource == "persistentvolumeclaims/status" {
			writes += answers.All()
		}
	}
	return writes
}

// HM-18, HM-46: with the role of upstream's older versions, which may not write the status, and then with a
// gate that is off, there are events and one write that the API server does not keep.
func TestHealthMonitorWithoutStatus(t *testing.T) {
	t.Parallel()
	p := newLiveCluster(t)
	d := newPatient(true)
	var role rbacv1.ClusterRole
	if err := p.user.Get(t.Context(), client.ObjectKey{Name: "purser-" + monitorAccount}, &role); err != nil {
		t.Fatal(err)
	}
	whole := role.DeepCopy()
	read := []string{"get", "list", "watch"}
	role.Rules = []rbacv1.PolicyRule{ // HM-18
		{
			APIGroups: []string{""},
			Resources: []string{"persistentvolumes", "persistentvolumeclaims", "nodes", "pods"}, Verbs: read,
		},
		{
			APIGroups: []string{""}, Resources: []string{"events"},
			Verbs: []string{"get", "list", "watch", "create", "patch"},
		},
	}
	replaceRole(t, p.user, &role)
	for i, tc := range []struct{ name, says string }{
		{"older-role", "the account may not patch persistentvolumeclaims/status"},
		{"gate-off", "CSIVolumeHealth is off"},
	} {
		if i == 1 {
			whole.ResourceVersion = ""
			replaceRole(t, p.user, whole)
		}
		granted := []process.Permission{{Resource: "persistentvolumeclaims/status", Verb: "patch"}}
		missing := granted[i:] // nothing with the whole role
		awaitMissing(t, p.as(monitorAccount), process.PermissionCheck{Wanted: granted}, missing)
		claim := p.monitored(tc.name, d.name)
		d.is("h-"+tc.name, lostImage)
		m, log := healthmonitor.New(), &rolestest.Log{}
		m.Version, m.API, m.Log = "test", p.as(monitorAccount), log.Logger()
		begin := p.mark()
		t.Run(tc.name, func(t *testing.T) {
			q := p
			q.T = t
			q.begin(m, &m.Started, append(
				slices.Clone(quickly), "--csi-address="+d.serve(t), "--list-volumes-interval=1s",
			))
			rolestest.Eventually(t, "the event of the problem", func() error {
				return q.hasEvent(claim, "VolumeConditionAbnormal", "ImageMissing")
			})
			rolestest.Eventually(t, "the log says why there is no status", func() error {
				for _, line := range log.Lines() {
					if strings.Contains(line, "dropped the healthStatus field") && strings.Contains(line, tc.says) {
						return nil
					}
				}
				return fmt.Errorf("%q", log.Lines())
			})
			calls := d.called("ControllerListVolumeHealth")
			rolestest.Eventually(t, "three more lists", func() error {
				if n := d.called("ControllerListVolumeHealth"); n < calls+3 {
					return fmt.Errorf("%d lists", n)
				}
				return nil
			})
		})
		if writes := p.statusWrites(begin, p.mark(), monitorAccount); writes > 1 {
			t.Errorf("%s: %d writes of status that are not kept", tc.name, writes)
		}
		d.is("h-" + tc.name)
	}
}

// The driver's own volume whose image is lost is Inaccessible, and its claim says why.
func TestHealthOfTheDriver(t *testing.T) {
	t.Parallel()
	p := newLiveCluster(t)
	dir := scripted.SocketDir(t)
	if err := loopfile.Usable(dir); err != nil {
		t.Skipf("needs loop devices: %v", err)
	}
	d := driver.New()
	d.Log, d.Notice, d.Version = (&rolestest.Log{}).Logger(), func(string) {}, "test"
	d.Endpoint, d.StateDir, d.NodeID = "unix://"+filepath.Join(dir, "csi.sock"), filepath.Join(dir, "state"), "node"
	d.Backend = "loopfile"
	rolestest.InBackground(t, d.Run)
	conn, err := csirpc.Dial(csirpc.Config{Endpoint: d.Endpoint, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var volume *csi.CreateVolumeResponse
	rolestest.Eventually(t, "a volume", func() (err error) {
		volume, err = conn.Controller().CreateVolume(t.Context(), &csi.CreateVolumeRequest{
			Name: "h-lost", CapacityRange: &csi.CapacityRange{RequiredBytes: 16 << 20},
			VolumeCapabilities: []*csi.VolumeCapability{{
				AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
				AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
			}},
		})
		return err
	})
	info, err := conn.Describe(t.Context())
	if err != nil || volume.GetVolume().GetVolumeId() != "h-lost" { // the handle of the PersistentVolume below
		t.Fatal(volume, err)
	}
	claim := p.monitored("lost", info.Name)
	m := healthmonitor.New()
	m.Version, m.API, m.Log = "test", p.as(monitorAccount), (&rolestest.Log{}).Logger()
	p.begin(m, &m.Started, append(slices.Clone(quickly), "--csi-address="+d.Endpoint, "--list-volumes-interval=1s"))
	if err := os.Remove(filepath.Join(d.StateDir, "volumes", "h-lost", "image")); err != nil {
		t.Fatal(err)
	}
	rolestest.Eventually(t, "the event of the lost image", func() error {
		return p.hasEventOf(
			"csi-pv-monitor-controller-"+info.Name, claim, "VolumeConditionAbnormal", "Inaccessible (ImageMissing)",
		)
	})
}
