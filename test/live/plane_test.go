package live

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/driver"
	"github.com/purser-csi/purser/internal/roles/plane"
	"github.com/purser-csi/purser/test/e2e/audit"
	"github.com/purser-csi/purser/test/rolestest"
)

func (p liveCluster) plane(args ...string) (role *plane.Plane, log *rolestest.Log) {
	p.Helper()
	manifest, err := os.Open(filepath.Join("..", "..", "deploy", "optional", "plane.yaml"))
	if err != nil {
		p.Fatal(err)
	}
	defer manifest.Close()
	if err := p.setup.Apply(p.Context(), manifest.Name(), manifest); err != nil {
		p.Fatal(err)
	}
	p.awaitGranted("plane", "controllers", "csi-provisioner", "csi-resizer")
	role = plane.New()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	role.AddFlags(flags)
	if err := flags.Parse(append(slices.Clone(quickly), args...)); err != nil || role.Validate() != nil {
		p.Fatal(err, role.Validate())
	}
	log = &rolestest.Log{}
	role.Version, role.API, role.Log = "test", p.as("plane"), log.Logger()
	return role, log
}

// isTracked reports whether the claim is bound and has the condition Unused.
func isTracked(claim *corev1.PersistentVolumeClaim) bool {
	return isBound(claim) && len(claim.Status.Conditions) > 0
}

// The role plane with the shipped permissions. Provisioning takes four writes, the condition Unused
// among them, and deletion four, besides the journal that many claims share. There are no reads,
// and no write without effect.
func TestPlaneProcess(t *testing.T) {
	const many = 20
	p := newLiveCluster(t)
	socket, _ := rolestest.LiveDriver(t)
	plane, log := p.plane("--csi-address=" + socket)
	rolestest.InBackground(t, plane.Run)
	p.create(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "deck"}, Provisioner: driver.DefaultName})
	first := p.claim("first", new("deck"))
	await(p, "the first claim is bound", first, isTracked) // the requests of the start have been sent by now

	begin, _ := p.awaitLogged(0, statusOfPair, p.writes)
	var claims []*corev1.PersistentVolumeClaim
	for i := range many {
		claims = append(claims, p.claim(fmt.Sprintf("claim-%d", i), new("deck")))
	}
	for _, claim := range claims {
		await(p, "bound, and its condition Unused is written", claim, isTracked)
	}
	bound := p.mustWrite(begin, "plane", map[string]int{
		"create persistentvolumes": many, "patch persistentvolumes/status": many, "patch persistentvolumeclaims": many,
		"patch persistentvolumeclaims/status": many, // the phase with the condition Unused
	}, many)
	for _, claim := range claims {
		if err := p.user.Delete(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
	}
	for _, claim := range claims {
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
		rolestest.Eventually(t, "the volume is gone", func() error { return p.gone(pv) })
	}
	p.mustWrite(bound, "plane", map[string]int{
		"patch persistentvolumeclaims": many, "patch persistentvolumes/status": many,
		"delete persistentvolumes": many, "patch persistentvolumes": many,
	}, many)
	for _, line := range log.Lines() {
		if strings.Contains(line, "permission") {
			t.Errorf("the shipped roles lack something: %s", line)
		}
	}
	var stacks strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 1); err != nil || strings.Contains(stacks.String(), "pkg/controller/priorityqueue") {
		t.Error("a controller does not have the queue of loop.NewQueue, and requeues twice a second", err)
	}
}

// statusOfPair are the last writes for a claim and its volume that are bound.
var statusOfPair = map[string]int{"patch persistentvolumeclaims/status": 1, "patch persistentvolumes/status": 1}

// awaitLogged waits until the audit log has the requests of want since a mark: another client can
// see the effect of a request before the log has it. It returns a mark after them, and the counts
// up to there, which may be larger.
func (p liveCluster) awaitLogged(
	from audit.Mark, want map[string]int, count func(from, to audit.Mark) map[string]int,
) (to audit.Mark, got map[string]int) {
	p.Helper()
	rolestest.Eventually(p.T, "the requests are in the audit log", func() error {
		to = p.mark()
		got = count(from, to)
		for request, n := range want {
			if got[request] < n {
				return fmt.Errorf("%d times %s, want %d; all are %v", got[request], request, n, got)
			}
		}
		return nil
	})
	return to, got
}

// mustWrite compares the requests of an account since a mark with those expected, and returns a mark
// after them. It leaves out events and requests that many claims share: the leases of the election
// and of the journal, and the lists of pods by the protection of claims.
func (p liveCluster) mustWrite(from audit.Mark, account string, want map[string]int, many int) (to audit.Mark) {
	p.Helper()
	var shared map[string]int
	to, got := p.awaitLogged(from, want, func(from, to audit.Mark) (got map[string]int) {
		got, shared = requestsOf(p.asked(from, to, account))
		return got
	})
	if diff := cmp.Diff(want, got); diff != "" {
		p.Errorf("requests:\n%s", diff)
	}
	p.Logf("for %d claims: %v, and shared %v; how much is shared depends on how fast they come", many, got, shared)
	if shared["list pods"] > many {
		p.Errorf("the %d claims cost more than a list of pods each: %v", many, shared)
	}
	if asked := p.asked(from, to, account); asked.Answered(401, 403, 404, 409) > 0 {
		p.Errorf("requests in vain: %v", asked)
	}
	return to
}

// requestsOf counts requests, those that many claims share apart.
func requestsOf(asked audit.Tally) (own, shared map[string]int) {
	own, shared = map[string]int{}, map[string]int{}
	for request, answers := range asked {
		if request.Verb == "watch" || request.IsEvent() || request.IsDiscovery() {
			continue
		}
		kind := request.Verb + " " + request.Resource
		switch {
		case request.Resource == "selfsubjectaccessreviews": // sent once at the start
		case request.Resource == "leases" || kind == "list pods":
			shared[kind] += answers.All()
		default:
			own[kind] += answers.All()
		}
	}
	return own, shared
}

func TestPlaneValidatesBothParts(t *testing.T) {
	p := plane.New()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	p.Controllers.Wanted, p.Controllers.Workers, p.Workers = []string{"nonsense"}, 0, 0
	err := p.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"--controllers", "--controller-threads=0", "--worker-threads=0"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %s in %v", want, err)
		}
	}
}
