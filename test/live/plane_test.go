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

	begin := p.mark()
	var claims []*corev1.PersistentVolumeClaim
	for i := range many {
		claims = append(claims, p.claim(fmt.Sprintf("claim-%d", i), new("deck")))
	}
	for _, claim := range claims {
		await(p, "bound, and its condition Unused is written", claim, isTracked)
	}
	bound := p.mark()
	mustWrite(t, p.asked(begin, bound, "plane"), map[string]int{
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
	mustWrite(t, p.asked(bound, p.mark(), "plane"), map[string]int{
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

// mustWrite compares the requests with those expected. It leaves out events and requests that many
// claims share: the leases of the election and of the journal, and the lists of pods by the
// protection of claims.
func mustWrite(t *testing.T, asked audit.Tally, want map[string]int, many int) {
	t.Helper()
	got, shared := map[string]int{}, map[string]int{}
	for request, answers := range asked.Where(func(r audit.Request) bool { return r.Verb != "watch" && !r.IsEvent() && !r.IsDiscovery() }) {
		kind := request.Verb + " " + request.Resource
		if request.Resource == "selfsubjectaccessreviews" { // sent once at the start
			continue
		}
		if request.Resource == "leases" || kind == "list pods" {
			shared[kind] += answers.All()
			continue
		}
		got[kind] += answers.All()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests:\n%s", diff)
	}
	t.Logf("for %d claims: %v, and shared %v; how much is shared depends on how fast they come", many, got, shared)
	if shared["list pods"] > many {
		t.Errorf("the %d claims cost more than a list of pods each: %v", many, shared)
	}
	if vain := asked.Answered(401, 403, 404, 409); vain > 0 {
		t.Errorf("%d requests in vain: %v", vain, asked)
	}
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
