package health

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

const driverName = "csi.example"

var start = time.Unix(1_000_020, 0) // a whole minute

// The API server's part in a scenario.
const (
	gateOn    = ""
	gateOff   = "off"
	forbidden = "forbidden"
	broken    = "broken"  // the first write fails
	webhook   = "webhook" // a mutating webhook changes the messages of each write
)

// rig is a controller on an API server in memory, with a driver that plays a script, under virtual time.
type rig struct {
	*Controller
	t        *testing.T
	api      client.WithWatch
	clock    *clocktesting.FakeClock
	driver   *driver
	lists    time.Time // when the next list is due
	measures *prometheus.Registry
	due      map[string]time.Time
	server   string
	writes   int
	refused  int
	events   []string
}

// driver answers as a function of time says. Its pages have at most the entries that a request asks for.
type driver struct {
	csi.ControllerClient
	clock *clocktesting.FakeClock
	// state returns the problems of a volume, or an error.
	state   func(handle string, now time.Time) ([]*csi.VolumeHealth_VolumeHealthEntry, error)
	handles []string
	calls   map[string]int
	seconds map[int64]int // calls about single volumes, by second
	listAll bool          // the list has the healthy volumes too
	abort   int           // so many second pages are refused with ABORTED
	// next, if set, returns the token of the page after a number of calls of the list.
	next func(call int) string
}

func (d *driver) ControllerGetVolumeHealth(
	_ context.Context, r *csi.ControllerGetVolumeHealthRequest, _ ...grpc.CallOption,
) (*csi.ControllerGetVolumeHealthResponse, error) {
	d.calls[methodGet]++
	d.seconds[d.clock.Now().Unix()]++
	entries, err := d.state(r.GetVolumeId(), d.clock.Now())
	if err != nil {
		return nil, err
	}
	return &csi.ControllerGetVolumeHealthResponse{
		VolumeHealth: &csi.VolumeHealth{VolumeId: r.GetVolumeId(), HealthStatuses: entries},
	}, nil
}

func (d *driver) ControllerListVolumeHealth(
	_ context.Context, r *csi.ControllerListVolumeHealthRequest, _ ...grpc.CallOption,
) (*csi.ControllerListVolumeHealthResponse, error) {
	d.calls[methodList]++
	var all []*csi.VolumeHealth
	for _, handle := range d.handles {
		entries, err := d.state(handle, d.clock.Now())
		if err != nil {
			return nil, err
		}
		if len(entries) > 0 || d.listAll {
			all = append(all, &csi.VolumeHealth{VolumeId: handle, HealthStatuses: entries})
		}
	}
	from := 0
	if token := r.GetStartingToken(); token != "" {
		if d.abort > 0 {
			d.abort--
			return nil, status.Error(codes.Aborted, "the token is not known any more")
		}
		from, _ = strconv.Atoi(token)
	}
	to := min(len(all), from+int(r.GetMaxEntries()))
	answer := &csi.ControllerListVolumeHealthResponse{Entries: all[from:to]}
	if to < len(all) {
		answer.NextToken = strconv.Itoa(to)
	}
	if d.next != nil {
		answer.NextToken = d.next(d.calls[methodList])
	}
	return answer, nil
}

// keys is the work queue: it only notes when a key is due.
type keys struct {
	workqueue.TypedRateLimitingInterface[string]
	rig *rig
}

// Add implements the queue.
func (k keys) Add(key string) { k.rig.due[key] = k.rig.clock.Now() }

// Event implements reconcile.Recorder.
func (r *rig) Event(object runtime.Object, eventType, reason, _ string) {
	if claim := object.(*corev1.PersistentVolumeClaim); claim.Name == "c0" { // the others are many
		r.events = append(r.events, eventType+" "+reason)
	}
}

// newRig returns a rig with bound volumes v0, v1, ... of claims c0, c1, ...
func newRig(t *testing.T, lists bool, server string, volumes int, stored ...corev1.VolumeHealthCondition) *rig {
	t.Helper()
	clock := clocktesting.NewFakeClock(start)
	r := &rig{
		t: t, clock: clock, server: server, lists: start, due: map[string]time.Time{},
		driver: &driver{clock: clock, calls: map[string]int{}, seconds: map[int64]int{}},
	}
	var objects []client.Object
	for i := range volumes {
		pv, claim := bound(i)
		if i == 0 && len(stored) > 0 {
			claim.Status.HealthStatus = &corev1.VolumeHealthStatus{HealthConditions: stored}
		}
		r.driver.handles = append(r.driver.handles, pv.Spec.CSI.VolumeHandle)
		objects = append(objects, pv, claim)
	}
	r.api = fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(objects...).
		WithStatusSubresource(&corev1.PersistentVolumeClaim{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: r.patch}).Build()
	registry := prometheus.NewRegistry()
	r.measures = registry
	measures := telemetry.NewMetrics(registry, func() int { return 0 })
	overlay := kube.NewOverlay(r.api, clock)
	r.Controller = New(Config{
		Settings: reconcile.Settings{
			Workers: 10, Clock: clock, Backoff: reconcile.Backoff{First: time.Second, Most: 5 * time.Minute},
			Decided: measures.Decisions, Events: r,
		},
		Cached: overlay, Writer: overlay.Recording(r.api), CSI: r.driver, Driver: driverName,
		Timeout: 15 * time.Second, InFlight: measures.InFlight, Measures: telemetry.NewVolumeHealth(registry),
		Lists: lists, ListEvery: 5 * time.Minute, CheckEvery: time.Minute,
	})
	r.Measures.Collect(r.state)
	for i := range volumes {
		pv, _ := bound(i)
		r.memory.track(pv, clock.Now())
		r.due[pv.Name] = clock.Now()
	}
	r.memory.lead(keys{rig: r})
	return r
}

func bound(i int) (*corev1.PersistentVolume, *corev1.PersistentVolumeClaim) {
	n := strconv.Itoa(i)
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c" + n, UID: types.UID("claim-" + n)},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "v" + n},
	}
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "v" + n, UID: types.UID(fmt.Sprintf("0000-%08d-volume", i))},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "fast",
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: "h" + n},
			},
			ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "c" + n, UID: claim.UID},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	return pv, claim
}

// patch is the API server's part of a write of a status.
func (r *rig) patch(
	ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
	opts ...client.SubResourcePatchOption,
) error {
	claims := schema.GroupResource{Resource: "persistentvolumeclaims"}
	switch r.server {
	case forbidden:
		r.refused++
		return apierrors.NewForbidden(claims, o.GetName(), nil)
	case broken:
		r.server = gateOn
		r.refused++
		return apierrors.NewInternalError(fmt.Errorf("no quorum"))
	case gateOff:
		r.refused++
		return nil // the object comes back without the field
	}
	r.writes++
	if err := c.SubResource(sub).Patch(ctx, o, p, opts...); err != nil || r.server != webhook || r.writes > 50 {
		return err
	}
	claim := o.(*corev1.PersistentVolumeClaim)
	if claim.Status.HealthStatus != nil {
		claim.Status.HealthStatus.HealthConditions[0].Message = "changed by the webhook"
	}
	r.due[claim.Spec.VolumeName] = r.clock.Now() // the watch shows the change
	return c.SubResource(sub).Update(ctx, claim)
}

// play runs the controller until some time after the start, with a list in each interval if it lists.
func (r *rig) play(until time.Duration) {
	r.t.Helper()
	end := start.Add(until)
	for runs := 0; ; runs++ {
		if runs > 200_000 {
			r.t.Fatal("the controller does not come to rest")
		}
		key, next := "", end
		for one, at := range r.due {
			if at.Before(next) || at.Equal(next) && key != "" && one < key {
				key, next = one, at
			}
		}
		if r.Lists && r.lists.Before(next) {
			r.clock.SetTime(r.lists)
			r.listOnce(r.t.Context())
			r.lists = r.lists.Add(r.ListEvery)
			continue
		}
		if key == "" {
			r.clock.SetTime(end)
			return
		}
		if next.After(r.clock.Now()) {
			r.clock.SetTime(next)
		}
		delete(r.due, key)
		result, err := r.Loop().Reconcile(r.t.Context(), key)
		if err != nil {
			r.t.Fatal(err)
		}
		if _, is := r.due[key]; !is && result.RequeueAfter > 0 {
			r.due[key] = r.clock.Now().Add(result.RequeueAfter)
		}
	}
}

// health returns the status of the claim c0.
func (r *rig) health() *corev1.VolumeHealthStatus {
	r.t.Helper()
	var claim corev1.PersistentVolumeClaim
	if err := r.api.Get(r.t.Context(), client.ObjectKey{Namespace: "ns", Name: "c0"}, &claim); err != nil {
		r.t.Fatal(err)
	}
	return claim.Status.HealthStatus
}

// sum returns the sum of a metric over its labels; of a histogram, the number of its samples.
func (r *rig) sum(name string) (sum float64) {
	r.t.Helper()
	families, err := r.measures.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}
