package snapshotmetadata

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/snapshotmetadata/rules"
	"github.com/purser-csi/purser/internal/snapshotmetadata/wire"
	"github.com/purser-csi/purser/test/backupclient"
)

// CB-H4: a stream without a request ends by itself.
func TestStreamWithoutARequest(t *testing.T) {
	r := newRig(t, newDriver(), func(cfg *Config) { cfg.wait = 50 * time.Millisecond }).ready()
	stream, err := r.conn.NewStream(
		t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/"+wire.Name+"/"+wire.MethodAllocated,
	)
	if err != nil {
		t.Fatal(err)
	}
	err = stream.RecvMsg(backupclient.New("GetMetadataAllocatedResponse"))
	if status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "no request within") {
		t.Errorf("CB-H4: %v", err)
	}
}

// CB-H4: streams are limited before their users are known.
func TestStreamsOfTheServer(t *testing.T) {
	r := newRig(t, newDriver(), nil).ready()
	for range mostOfServer {
		r.service.limits.streams <- struct{}{}
	}
	_, err := backupclient.Collect(t.Context(), r.conn, request(nil))
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "1024 streams open") {
		t.Errorf("CB-H4: %v", err)
	}
	<-r.service.limits.streams
	for range 2 { // the place is free again after a stream
		if _, err := backupclient.Collect(t.Context(), r.conn, request(nil)); err != nil {
			t.Fatal(err)
		}
		<-r.ended
	}
}

// CB-H4: a client waits for its review neither long nor beside many others.
func TestWaitsForReviews(t *testing.T) {
	l := newLimits()
	var last func()
	for range mostReviews {
		release, err := l.review(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		last = release
	}
	isBusy := func(row string, most time.Duration) {
		t.Helper()
		_, err := l.review(t.Context(), most)
		if refusal, ok := errors.AsType[*rules.Refusal](err); !ok || refusal.Code != codes.ResourceExhausted {
			t.Errorf("CB-H4 %s: %v", row, err)
		}
	}
	isBusy("a long wait", time.Millisecond)
	last()
	for range mostWaiting {
		l.waiting <- struct{}{}
	}
	isBusy("many others", time.Minute)
	<-l.waiting
	if _, err := l.review(t.Context(), time.Minute); err != nil {
		t.Errorf("CB-H4 after that: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.review(ended, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("CB-H4 a client that is gone: %v", err)
	}
}

// CB-21: open streams hold up the end no longer than Config.Drain.
func TestDrain(t *testing.T) {
	d := newDriver()
	begun, goOn := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(goOn) })
	d.answer = func(send func(*csi.GetMetadataAllocatedResponse) error) error {
		close(begun)
		<-goOn
		return send(blocksOf(0, 10))
	}
	r := newRig(t, d, func(cfg *Config) { cfg.Longest, cfg.Drain = time.Hour, 50*time.Millisecond }).ready()
	done := make(chan error, 1)
	go func() {
		_, err := backupclient.Collect(context.WithoutCancel(t.Context()), r.conn, request(nil))
		done <- err
	}()
	<-begun
	r.stop()
	if err := <-done; err == nil {
		t.Error("CB-21: the stream ended well")
	}
}

// CB-13: a request without max_results limits the blocks of the driver's messages too.
func TestMaxResultsOfTheDriver(t *testing.T) {
	r := newRig(t, newDriver(), nil).ready()
	for _, base := range []string{"", "handle-monday"} {
		if _, err := backupclient.Collect(t.Context(), r.conn, request(
			func(q *backupclient.Request) { q.Base = base },
		)); err != nil {
			t.Fatal(err)
		}
	}
	allocated, deltas := r.driver.asked()
	if allocated[0].GetMaxResults() != rules.MostBlocks || deltas[0].GetMaxResults() != rules.MostBlocks {
		t.Errorf("CB-13: %v, %v", allocated, deltas)
	}
}

// CB-14: a class that the user of the namespace chose does not count beside that of the content, and
// a class of another driver is refused. CB-H4: neither is a base of another volume taken.
func TestObjectsThatAUserChanged(t *testing.T) {
	objects := fakeObjects()
	edit := func(o client.Object, name string, change func()) {
		t.Helper()
		if err := objects.Get(t.Context(), client.ObjectKey{Namespace: o.GetNamespace(), Name: name}, o); err != nil {
			t.Fatal(err)
		}
		change()
		if err := objects.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	other := &snapshotv1.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: "other"}, Driver: "other",
		DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
	}
	if err := objects.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"monday", "tuesday"} {
		snapshot := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}
		edit(snapshot, name, func() { snapshot.Spec.VolumeSnapshotClassName = new("other") })
	}
	content := &snapshotv1.VolumeSnapshotContent{}
	edit(content, "content-tuesday", func() {
		content.Spec.VolumeSnapshotClassName, content.Spec.Source.VolumeHandle = new("class"), new("vol")
	})
	r := newRig(t, newDriver(), func(cfg *Config) { cfg.Objects = objects }).ready()
	tuesday := func(base string) backupclient.Request {
		return request(func(q *backupclient.Request) { q.Snapshot, q.Base = "tuesday", base })
	}
	if _, err := backupclient.Collect(t.Context(), r.conn, tuesday("")); err != nil {
		t.Error("CB-14 the class of the content", err)
	}
	if allocated, _ := r.driver.asked(); len(allocated) != 1 || allocated[0].GetSecrets()["password"] == "" {
		t.Errorf("CB-14 the secret of the content's class: %v", allocated)
	}
	_, err := backupclient.Collect(t.Context(), r.conn, request(nil))
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "'other' does not belong") {
		t.Errorf("CB-14 a class of another driver: %v", err)
	}
	monday := &snapshotv1.VolumeSnapshotContent{}
	edit(monday, "content-monday", func() { monday.Spec.Source.VolumeHandle = new("elsewhere") })
	_, err = backupclient.Collect(t.Context(), r.conn, tuesday("handle-monday"))
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "another volume") {
		t.Errorf("CB-H4 a base of another volume: %v", err)
	}
}

// withoutSecrets is a reader of an account that may not read secrets.
type withoutSecrets struct{ client.Reader }

func (w withoutSecrets) Get(
	ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption,
) error {
	if _, isSecret := into.(*corev1.Secret); isSecret {
		return apierrors.NewForbidden(corev1.Resource("secrets"), key.Name, errors.New("the account of the service"))
	}
	return w.Reader.Get(ctx, key, into, opts...)
}

// CB-15, CB-18: which secret the service may not read is for the log alone.
func TestSecretThatCannotBeRead(t *testing.T) {
	r := newRig(t, newDriver(), func(cfg *Config) { cfg.Objects = withoutSecrets{cfg.Objects} }).ready()
	_, err := backupclient.Collect(t.Context(), r.conn, request(nil))
	if got := status.Convert(err); got.Code() != codes.Unavailable || got.Message() != "failed to get credentials" {
		t.Errorf("CB-15: %v", err)
	}
	if lines := strings.Join(r.log.Lines(), "\n"); !strings.Contains(lines, "the account of the service") {
		t.Errorf("CB-18: the log is %s", lines)
	}
}
