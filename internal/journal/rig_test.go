package journal

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
)

func entry(n int) intent.Entry {
	name := fmt.Sprint("pvc-uid-", n)
	return intent.Entry{
		Claim: types.NamespacedName{Namespace: "crew", Name: fmt.Sprint("claim-", n)}, UID: types.UID(fmt.Sprint("uid-", n)),
		VolumeName: name, Request: &csi.CreateVolumeRequest{Name: name},
	}
}

// api is an API server that counts writes and can be told to refuse them.
type api struct {
	client.WithWatch
	writes  atomic.Int32
	refused atomic.Int32
	refuse  atomic.Pointer[error]
	reading atomic.Pointer[func(name string)] // called before each read
}

func newAPI(t *testing.T) *api {
	t.Helper()
	a := &api{}
	check := func() error {
		if err := a.refuse.Load(); err != nil {
			a.refused.Add(1)
			return *err
		}
		a.writes.Add(1)
		return nil
	}
	a.WithWatch = fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := check(); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if reading := a.reading.Load(); reading != nil {
				(*reading)(key.Name)
			}
			return c.Get(ctx, key, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := check(); err != nil {
				return err
			}
			return c.Update(ctx, o, opts...)
		},
	}).Build()
	return a
}

func (a *api) lease(t *testing.T, name string) *coordinationv1.Lease {
	t.Helper()
	lease := &coordinationv1.Lease{}
	if err := a.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, lease); err != nil {
		t.Fatal(err)
	}
	return lease
}

// onRecord is what a restart would find.
func (a *api) onRecord(t *testing.T) []intent.Entry {
	t.Helper()
	entries, err := intent.Decode(a.lease(t, "j").Annotations[names.AnnIntents])
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// running is a journal with its Start under way.
type running struct {
	*Journal
	stop  context.CancelFunc
	ended chan error
	dead  *atomic.Bool
}

// die ends it without another write.
func (r running) die() {
	r.dead.Store(true)
	r.stop()
	<-r.ended
}

// mortal are the writes of a process that may be killed.
type mortal struct {
	client.Writer
	dead *atomic.Bool
}

var errDead = errors.New("the process is dead")

func (m mortal) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if m.dead.Load() {
		return errDead
	}
	return m.Writer.Create(ctx, o, opts...)
}

func (m mortal) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if m.dead.Load() {
		return errDead
	}
	return m.Writer.Update(ctx, o, opts...)
}

func start(t *testing.T, a *api, holder string, edits ...func(*Config)) running {
	t.Helper()
	cfg := Config{Live: a, Writer: a, Namespace: "ns", Name: "j", Holder: holder, CallTimeout: 10 * time.Second}
	for _, edit := range edits {
		edit(&cfg)
	}
	dead := &atomic.Bool{}
	cfg.Writer = mortal{cfg.Writer, dead}
	ctx, cancel := context.WithCancel(t.Context())
	r := running{Journal: New(cfg), stop: cancel, ended: make(chan error, 1), dead: dead}
	go func() { r.ended <- r.Start(ctx) }()
	synctest.Wait()
	return r
}

func (r running) end(t *testing.T) {
	t.Helper()
	r.stop()
	if err := <-r.ended; err != nil {
		t.Errorf("Start: %v", err)
	}
}

func record(t *testing.T, j *Journal, n int) {
	t.Helper()
	if err := j.Record(t.Context(), entry(n)); err != nil {
		t.Fatalf("Record: %v", err)
	}
}

// call begins a call for an entry that is in the journal.
func call(t *testing.T, j *Journal, n int) (until time.Time) {
	t.Helper()
	bounded, cancel, err := j.Hold(t.Context(), entry(n).UID)
	if err != nil {
		t.Fatalf("Hold: %v", err)
	}
	cancel()
	until, _ = bounded.Deadline()
	return until
}

// mayCall is why a call may not begin.
func mayCall(t *testing.T, j *Journal, claim types.UID) error {
	t.Helper()
	_, cancel, err := j.Hold(t.Context(), claim)
	if err == nil {
		cancel()
	}
	return err
}
