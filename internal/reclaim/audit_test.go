package reclaim

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/purser-csi/purser/internal/csirpc"
	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/telemetry"
)

// calls makes the calls to the driver.
func calls() *csirpc.Caller {
	return csirpc.NewCaller(csirpc.CallerConfig{InFlight: telemetry.NewGauge(prometheus.NewRegistry(), telemetry.MetricInFlight)})
}

// pages is a driver that lists one volume per page.
type pages struct {
	csi.ControllerClient
	mu      sync.Mutex
	volumes []string
	fail    error
}

func (p *pages) set(volumes []string, fail error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.volumes, p.fail = volumes, fail
}

func (p *pages) ListVolumes(_ context.Context, r *csi.ListVolumesRequest, _ ...grpc.CallOption) (*csi.ListVolumesResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail != nil {
		return nil, p.fail
	}
	for i, v := range p.volumes {
		if r.GetStartingToken() != "" && r.GetStartingToken() != v {
			continue
		}
		answer := &csi.ListVolumesResponse{Entries: []*csi.ListVolumesResponse_Entry{{Volume: &csi.Volume{VolumeId: v}}}}
		if i+1 < len(p.volumes) {
			answer.NextToken = p.volumes[i+1]
		}
		return answer, nil
	}
	return &csi.ListVolumesResponse{Entries: []*csi.ListVolumesResponse_Entry{nil}}, nil
}

// record is a journal.
type record struct {
	mu      sync.Mutex
	entries []intent.Entry
}

func (r *record) set(entries ...intent.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = entries
}

func (r *record) Entries() []intent.Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.entries)
}

func pv(name, driver, handle string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle},
		}},
	}
}

// odd is a driver whose lists are whatever bytes say.
type odd struct {
	csi.ControllerClient
	pages []*csi.ListVolumesResponse
	asked int
}

func (o *odd) ListVolumes(context.Context, *csi.ListVolumesRequest, ...grpc.CallOption) (*csi.ListVolumesResponse, error) {
	o.asked++
	return o.pages[(o.asked-1)%len(o.pages)], nil
}

// FuzzListVolumes: no list of a driver makes the audit panic or go on for ever (U-47).
func FuzzListVolumes(f *testing.F) {
	whole, err := proto.Marshal(&csi.ListVolumesResponse{Entries: []*csi.ListVolumesResponse_Entry{{Volume: &csi.Volume{VolumeId: "v"}}, nil}, NextToken: "v"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, []byte{})
	f.Add(whole, whole) // in circles
	f.Add([]byte{}, []byte{})
	api := fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build()
	f.Fuzz(func(t *testing.T, first, second []byte) {
		o := &odd{}
		for _, raw := range [][]byte{first, second} {
			page := &csi.ListVolumesResponse{}
			if proto.Unmarshal(raw, page) != nil {
				page = nil
			}
			o.pages = append(o.pages, page)
		}
		a := NewOrphanAudit(OrphanAuditConfig{Cached: api, Calls: calls(), CSI: o, Driver: "ours", Timeout: time.Minute, Journal: &record{}, Orphans: prometheus.NewGauge(prometheus.GaugeOpts{Name: "orphans"})})
		if err := a.look(t.Context()); err != nil && o.asked != csirpc.MostPages {
			t.Errorf("%v after %d pages", err, o.asked)
		}
	})
}

func TestAudit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := &pages{volumes: []string{"known", "foreign", "orphan"}}
		api := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(
			pv("a", "ours", "known"), pv("b", "another", "foreign"), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "c"}},
		).Build()
		found := prometheus.NewGauge(prometheus.GaugeOpts{Name: "orphans"})
		record := &record{}
		a := NewOrphanAudit(OrphanAuditConfig{Cached: api, Calls: calls(), CSI: driver, Journal: record, Driver: "ours", Interval: time.Minute, Timeout: time.Second, Orphans: found})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- a.Start(ctx) }()
		expect := func(want float64, when string) {
			t.Helper()
			synctest.Wait()
			if got := testutil.ToFloat64(found); got != want {
				t.Errorf("%s: %v orphans, want %v", when, got, want)
			}
		}
		expect(0, "first look")
		time.Sleep(time.Minute)
		expect(2, "second look: a PersistentVolume of another driver does not count")
		driver.set(nil, errors.New("no"))
		time.Sleep(time.Minute)
		expect(2, "a look that fails changes nothing")
		driver.set([]string{"orphan", "young"}, nil)
		record.set(intent.Entry{UID: "claim"})
		time.Sleep(2 * time.Minute)
		expect(1, "a volume may be that of the request in the journal")
		record.set()
		time.Sleep(time.Minute)
		expect(2, "the request is resolved, and its volume unknown")
		driver.set(nil, nil)
		time.Sleep(time.Minute)
		expect(0, "no volumes")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
