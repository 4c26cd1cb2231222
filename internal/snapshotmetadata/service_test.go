package snapshotmetadata

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/backupclient"
	"github.com/purser-csi/purser/test/rolestest"
	"github.com/purser-csi/purser/test/scripted"
)

// CB-12, CB-14, CB-20: what the driver is asked, and what the client gets.
func TestBlocksOfASnapshot(t *testing.T) {
	r := newRig(t, newDriver(), nil).ready()
	secrets := map[string]string{"password": "hunter2-hunter2"}
	var records []backupclient.Record
	if err := backupclient.Stream(t.Context(), r.conn,
		request(func(q *backupclient.Request) { q.Offset, q.Max = 100, 7 }), func(one backupclient.Record) error {
			records = append(records, one)
			return nil
		}); err != nil {
		t.Fatal(err)
	}
	want := []backupclient.Record{{Type: 2, Capacity: 1 << 40, Blocks: []backupclient.Block{{Offset: 0, Size: 4096}}}}
	if diff := cmp.Diff(want, records); diff != "" {
		t.Error("CB-12", diff)
	}
	asked := &csi.GetMetadataAllocatedRequest{
		SnapshotId: "handle-monday", StartingOffset: 100, MaxResults: 7, Secrets: secrets,
	}
	allocated, _ := r.driver.asked()
	if diff := cmp.Diff([]*csi.GetMetadataAllocatedRequest{asked}, allocated, protocmp.Transform()); diff != "" {
		t.Error("CB-14", diff)
	}
	if got := <-r.ended; got != (ended{"MetadataAllocated", codes.OK}) {
		t.Errorf("CB-20: %v", got)
	}

	blocks, err := backupclient.Collect(t.Context(), r.conn, request(
		func(q *backupclient.Request) { q.Snapshot, q.Base, q.Max = "tuesday", "handle-monday", 1 },
	))
	if err != nil {
		t.Fatal(err)
	}
	changed := []backupclient.Block{{Offset: 8192, Size: 4096}, {Offset: 16384, Size: 4096}}
	if diff := cmp.Diff(changed, blocks); diff != "" {
		t.Error("CB-12 delta", diff)
	}
	delta := &csi.GetMetadataDeltaRequest{
		BaseSnapshotId: "handle-monday", TargetSnapshotId: "handle-tuesday", MaxResults: 1, Secrets: secrets,
	}
	_, deltas := r.driver.asked()
	if diff := cmp.Diff([]*csi.GetMetadataDeltaRequest{delta}, deltas, protocmp.Transform()); diff != "" {
		t.Error("CB-14 delta", diff)
	}
	if got := <-r.ended; got != (ended{"MetadataDelta", codes.OK}) {
		t.Errorf("CB-H3: %v", got)
	}
}

// CB-14, CB-15, CB-27, CB-H4: what is refused, before the driver is asked.
func TestRefusals(t *testing.T) {
	r := newRig(t, newDriver(), nil).ready()
	for _, tc := range []struct {
		row  string
		edit func(*backupclient.Request)
		code codes.Code
		text string
	}{
		{"CB-15 no token", func(q *backupclient.Request) { q.Token = "" }, codes.InvalidArgument, "securityToken is missing"},
		{"CB-15 another token", func(q *backupclient.Request) { q.Token = "other" }, codes.Unauthenticated, "unauthenticated user"},
		{"CB-15 no permission", func(q *backupclient.Request) { q.Namespace, q.Snapshot = "bank", "vault" }, codes.PermissionDenied, "of the test"},
		{"CB-15 another driver", func(q *backupclient.Request) { q.Snapshot = "foreign" }, codes.InvalidArgument, "does not belong to the CSI driver"},
		{"CB-15 not ready", func(q *backupclient.Request) { q.Snapshot = "early" }, codes.Unavailable, "not yet ready"},
		{"CB-27 not there", func(q *backupclient.Request) { q.Snapshot = "sunday" }, codes.NotFound, "shop/sunday"},
		{"CB-14 token before state", func(q *backupclient.Request) { q.Token, q.Snapshot = "other", "sunday" }, codes.Unauthenticated, ""},
		{"CB-14 access before state", func(q *backupclient.Request) { q.Namespace, q.Snapshot = "bank", "sunday" }, codes.PermissionDenied, ""},
		{
			"CB-H4 the base of another namespace", func(q *backupclient.Request) { q.Base = "handle-vault" },
			codes.PermissionDenied, "outside of namespace 'shop'",
		},
		{"CB-14 a token of 70 KiB", func(q *backupclient.Request) { q.Token = strings.Repeat("x", 70<<10) }, codes.ResourceExhausted, "larger than max"},
	} {
		_, err := backupclient.Collect(t.Context(), r.conn, request(tc.edit))
		if status.Code(err) != tc.code || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v, want %s with %q", tc.row, err, tc.code, tc.text)
		}
	}
	r.reviews.set(func(r *reviews) { r.fails = errors.New("no etcd") })
	if _, err := backupclient.Collect(t.Context(), r.conn, request(nil)); status.Code(err) != codes.Internal ||
		!strings.Contains(err.Error(), "no etcd") {
		t.Errorf("CB-15 a review that fails: %v", err)
	}
	r.reviews.set(func(r *reviews) { r.fails, r.panics = nil, true })
	if _, err := backupclient.Collect(t.Context(), r.conn, request(nil)); status.Code(err) != codes.Internal {
		t.Errorf("CB-H2 a panic: %v", err)
	}
	if calls, _ := r.driver.calls(); calls != 0 {
		t.Errorf("the driver was asked %d times", calls)
	}
	r.reviews.set(func(r *reviews) { r.panics = false })
	if _, err := backupclient.Collect(t.Context(), r.conn, request(nil)); err != nil {
		t.Errorf("CB-H2 after a panic: %v", err)
	}
	for _, line := range r.log.Lines() {
		if strings.Contains(line, goodToken) || strings.Contains(line, "hunter2") {
			t.Errorf("CB-18: the log has a secret: %s", line)
		}
	}
}

// CB-5: the audience of the flag counts, and without one the object must be there.
func TestAudiences(t *testing.T) {
	r := newRig(t, newDriver(), func(cfg *Config) { cfg.Audience = "another" }).ready()
	if _, err := backupclient.Collect(t.Context(), r.conn, request(nil)); status.Code(err) != codes.Unauthenticated {
		t.Errorf("CB-5: %v", err)
	}
	d := newDriver()
	r = newRig(t, d, func(cfg *Config) {
		objects := fakeObjects()
		service := serviceObject()
		if err := objects.Delete(t.Context(), service); err != nil {
			t.Fatal(err)
		}
		cfg.Objects = objects
	}).ready()
	if _, err := backupclient.Collect(t.Context(), r.conn, request(nil)); status.Code(err) != codes.Internal ||
		!strings.Contains(err.Error(), "failed to find the SnapshotMetadataService CR for driver") {
		t.Errorf("CB-15 no object: %v", err)
	}
}

// forbidding is a reader of an account that may not read classes, as with upstream's sample role.
type forbidding struct{ client.Reader }

var errClasses = apierrors.NewForbidden(snapshotv1.Resource("volumesnapshotclasses"), "class", errors.New("no rule"))

func (f forbidding) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if _, isClass := into.(*snapshotv1.VolumeSnapshotClass); isClass {
		return errClasses
	}
	return f.Reader.Get(ctx, key, into, opts...)
}

// CB-22, CB-H1: with upstream's sample role the driver is asked without a secret, and the log says so.
func TestAccountWithoutClasses(t *testing.T) {
	r := newRig(t, newDriver(), func(cfg *Config) { cfg.Objects = forbidding{cfg.Objects} }).ready()
	if _, err := backupclient.Collect(t.Context(), r.conn, request(nil)); err != nil {
		t.Fatal(err)
	}
	allocated, _ := r.driver.asked()
	if len(allocated) != 1 || len(allocated[0].GetSecrets()) > 0 {
		t.Errorf("CB-H1: the driver was asked %v", allocated)
	}
	if lines := strings.Join(r.log.Lines(), "\n"); !strings.Contains(lines, "may not read VolumeSnapshotClasses") {
		t.Errorf("CB-H1: the log is %s", lines)
	}
}

// CB-15, CB-16: an error of the driver keeps its code, after the blocks before it; its secrets are
// removed.
func TestErrorsOfTheDriver(t *testing.T) {
	d := newDriver()
	d.answer = func(send func(*csi.GetMetadataAllocatedResponse) error) error {
		if err := send(blocksOf(0, 10)); err != nil {
			return err
		}
		return status.Error(codes.FailedPrecondition, "login with hunter2-hunter2 failed")
	}
	r := newRig(t, d, nil).ready()
	blocks, err := backupclient.Collect(t.Context(), r.conn, request(nil))
	if status.Code(err) != codes.FailedPrecondition || len(blocks) != 1 || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("CB-16: %v, %v", blocks, err)
	}
	d.set(func(d *blockDriver) {
		d.answer = func(send func(*csi.GetMetadataAllocatedResponse) error) error {
			return send(blocksOf(20, 10, 0, 10))
		}
	})
	if blocks, err = backupclient.Collect(t.Context(), r.conn, request(nil)); status.Code(err) != codes.Internal ||
		len(blocks) > 0 {
		t.Errorf("CB-H4 blocks out of order: %v, %v", blocks, err)
	}
	d.set(func(d *blockDriver) {
		d.answer = func(func(*csi.GetMetadataAllocatedResponse) error) error { return errors.New("plain") }
	})
	if _, err = backupclient.Collect(t.Context(), r.conn, request(nil)); status.Code(err) != codes.Internal ||
		!strings.Contains(err.Error(), "plain") {
		t.Errorf("CB-15 a code that says nothing: %v", err)
	}
}

// CB-13, CB-16, CB-29: a client that loses its stream resumes at the end of the last block, with a
// review of its own, and has all blocks once.
func TestResumedStream(t *testing.T) {
	d := newDriver()
	d.answer = func(send func(*csi.GetMetadataAllocatedResponse) error) error {
		for i := range int64(10) { // from the beginning, whatever the offset is
			if err := send(blocksOf(i*100, 50)); err != nil {
				return err
			}
		}
		return nil
	}
	r := newRig(t, d, nil).ready()
	var got []backupclient.Block
	streams := 0
	for from := int64(0); ; streams++ {
		seen := 0
		err := backupclient.Stream(t.Context(), r.conn, request(func(q *backupclient.Request) { q.Offset = from }),
			func(record backupclient.Record) error {
				for _, b := range record.Blocks {
					got, from = append(got, b), b.Offset+b.Size
					seen++
				}
				if seen == 3 {
					return errEnough
				}
				return nil
			})
		if err == nil {
			break
		}
		if !errors.Is(err, errEnough) {
			t.Fatal(err)
		}
	}
	if len(got) != 10 || streams != 3 || got[9].Offset != 900 {
		t.Errorf("%d streams ended early; %v", streams, got)
	}
	r.reviews.set(func(of *reviews) {
		if of.tokens != 4 {
			t.Errorf("CB-29: %d tokens were reviewed", of.tokens)
		}
	})
}

// CB-6, CB-12: a client that does not read holds up the driver, and loses its stream when that
// takes too long.
func TestClientThatDoesNotRead(t *testing.T) {
	const all = 40_000
	d := newDriver()
	d.answer = func(send func(*csi.GetMetadataAllocatedResponse) error) error {
		for i := range int64(all) {
			m := blocksOf()
			for j := range int64(1000) {
				m.BlockMetadata = append(
					m.BlockMetadata, &csi.BlockMetadata{ByteOffset: (i*1000 + j) << 12, SizeBytes: 1 << 12},
				)
			}
			if err := send(m); err != nil {
				return err
			}
		}
		return nil
	}
	r := newRig(t, d, func(cfg *Config) { cfg.Longest = 2 * time.Second }).ready()
	err := backupclient.Stream(t.Context(), r.conn, request(nil), func(backupclient.Record) error {
		got := <-r.ended
		if got.code != codes.DeadlineExceeded {
			t.Errorf("CB-6: the stream ended with %s", got.code)
		}
		return errEnough
	})
	if !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	if _, sent := d.calls(); sent > all/4 {
		t.Errorf("CB-12: the driver sent %d of %d messages to a client that took one", sent, all)
	}
	rolestest.Eventually(t, "the stream is closed", func() error {
		r.service.limits.mu.Lock()
		defer r.service.limits.mu.Unlock()
		if r.service.limits.all != 0 {
			return fmt.Errorf("%d streams are open", r.service.limits.all)
		}
		return nil
	})
}

// CB-11: the service listens before the driver is ready, and says so.
func TestDriverThatStartsSlowly(t *testing.T) {
	d := newDriver()
	d.starting = true
	r := newRig(t, d, nil)
	health := healthv1.NewHealthClient(r.conn)
	rolestest.Eventually(t, "the driver is known", func() error {
		if r.service.driver() == "" {
			return errors.New("no name")
		}
		return nil
	})
	answer, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil || answer.GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("CB-11: %v, %v", answer, err)
	}
	if _, err := backupclient.Collect(t.Context(), r.conn, request(nil)); status.Code(err) != codes.Unavailable ||
		!strings.Contains(err.Error(), "the CSI driver is not yet ready") {
		t.Errorf("CB-15: %v", err)
	}
	if _, err := backupclient.Collect(t.Context(), r.conn, request(
		func(q *backupclient.Request) { q.Token = "other" },
	)); status.Code(err) != codes.Unauthenticated {
		t.Errorf("CB-14 token before readiness: %v", err)
	}
	d.set(func(d *blockDriver) { d.starting = false })
	r.ready()
	if answer, err = health.Check(
		t.Context(), &healthv1.HealthCheckRequest{Service: "snapshotmetadata.SnapshotMetadata"},
	); err != nil || answer.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("CB-11: %v, %v", answer, err)
	}
}

// CB-11: a driver without the service is an error.
func TestDriverWithoutTheService(t *testing.T) {
	d := &blockDriver{Driver: scripted.Driver{Name: driverName}}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(t.Context(), Config{Conn: serveDriver(t, d), Longest: time.Minute, Timeout: time.Minute})
	if err := s.Run(t.Context(), listener); !errors.Is(err, ErrUnable) {
		t.Errorf("CB-11: %v", err)
	}
}

// CB-21: at the end, streams that are open are answered to their end, and new ones are refused.
func TestStreamsAreAnsweredAtTheEnd(t *testing.T) {
	d := newDriver()
	begun, goOn := make(chan struct{}), make(chan struct{})
	d.answer = func(send func(*csi.GetMetadataAllocatedResponse) error) error {
		if err := send(blocksOf(0, 10)); err != nil {
			return err
		}
		close(begun)
		<-goOn
		return send(blocksOf(10, 10))
	}
	r := newRig(t, d, nil).ready()
	type result struct {
		blocks []backupclient.Block
		err    error
	}
	done := make(chan result, 1)
	go func() {
		blocks, err := backupclient.Collect(context.WithoutCancel(t.Context()), r.conn, request(nil))
		done <- result{blocks, err}
	}()
	<-begun
	stopped := make(chan struct{})
	go func() { r.stop(); close(stopped) }()
	rolestest.Eventually(t, "the service is stopping", func() error {
		if r.service.Check(t.Context()) == nil {
			return errors.New("it serves")
		}
		return nil
	})
	close(goOn)
	if got := <-done; got.err != nil || len(got.blocks) != 2 {
		t.Errorf("CB-21: %v, %v", got.blocks, got.err)
	}
	<-stopped
}

// CB-H4: the streams of one user, and of all, are limited.
func TestLimits(t *testing.T) {
	l := newLimits()
	var open []func()
	for i := range mostStreamsOfUser {
		release, refusal := l.open("a")
		if refusal != nil {
			t.Fatal(i, refusal)
		}
		open = append(open, release)
	}
	if _, refusal := l.open("a"); refusal == nil || refusal.Code != codes.ResourceExhausted {
		t.Errorf("one more of a user: %v", refusal)
	}
	for i := range mostStreams - mostStreamsOfUser {
		if _, refusal := l.open(fmt.Sprint("b", i%20)); refusal != nil {
			t.Fatal(i, refusal)
		}
	}
	if _, refusal := l.open("c"); refusal == nil || refusal.Code != codes.ResourceExhausted {
		t.Errorf("one more of all: %v", refusal)
	}
	open[0]()
	if _, refusal := l.open("c"); refusal != nil {
		t.Errorf("after one has ended: %v", refusal)
	}
}
