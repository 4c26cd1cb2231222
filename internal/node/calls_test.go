package node

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	mounting "github.com/purser-csi/purser/internal/node/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// 5.4, 5.8: the metadata is there before the driver is called, and stays until it has answered with
// success.
func TestMetadataAroundCalls(t *testing.T) {
	pod, claim, pv := one("a")
	a, server := newAgent(t, theNode(), csiDriver(false), pod, claim, pv)
	d, _ := register(t, a, driverName)
	key, id := keyOf("a"), idOf("a")
	published := filepath.Join(a.layout.VolumeDir(id.Pod, id.Spec), mounting.DataFile)
	staged := filepath.Join(a.layout.StageDir(key), mounting.DataFile)
	needs := map[string]string{
		"NodeStageVolume": staged, "NodePublishVolume": published, "NodeUnpublishVolume": published, "NodeUnstageVolume": staged,
	}
	refused := map[string]int{}
	d.set(func(_ context.Context, method string) error {
		file, volume := needs[method]
		if volume && !exists(file) {
			t.Errorf("%s without %s", method, file)
		}
		if refused[method]++; volume && refused[method] == 1 && strings.Contains(method, "Un") {
			return status.Error(codes.Internal, "busy")
		}
		return nil
	})
	run(t, a, key)
	if p, _ := a.records.get(key).Publication(id); p.State != mounting.Certain {
		t.Fatalf("not published: %+v", a.records.get(key))
	}
	if err := server.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // unpublish fails, then unstage, then nothing
		run(t, a, key)
		if left := !a.records.get(key).IsEmpty(); left != (i < 2) || exists(staged) != left {
			t.Errorf("run %d: record %+v, staged %t", i, a.records.get(key), exists(staged))
		}
	}
	want := []string{"NodeStageVolume h-a", "NodePublishVolume h-a", "NodeUnpublishVolume h-a", "NodeUnpublishVolume h-a", "NodeUnstageVolume h-a", "NodeUnstageVolume h-a"}
	if got := d.seen(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// 4.7, 5.13: the driver is called when volumesInUse has the volume, the node lists it as attached,
// and not before; a report that fails is no report.
func TestReportBeforeCalls(t *testing.T) {
	pod, claim, pv := one("a")
	node := theNode()
	key := keyOf("a")
	node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: key.UniqueName()}}
	va := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: names.AttachmentName(key.Handle, key.Driver, nodeName)}, Status: storagev1.VolumeAttachmentStatus{Attached: true},
	}
	a, server := newAgent(t, node, csiDriver(true), pod, claim, pv, va)
	d, _ := register(t, a, driverName)
	server.fail(errors.New("no write"))
	run(t, a, key)
	if err := a.inUse.report(t.Context()); err == nil || a.inUse.isReported(key.UniqueName()) || len(d.seen()) > 0 {
		t.Errorf("%v, reported %t, calls %q", err, a.inUse.isReported(key.UniqueName()), d.seen())
	}
	run(t, a, key)
	server.fail(nil)
	if err := a.inUse.report(t.Context()); err != nil || !a.inUse.isReported(key.UniqueName()) || len(d.seen()) > 0 {
		t.Errorf("%v, reported %t, calls %q", err, a.inUse.isReported(key.UniqueName()), d.seen())
	}
	run(t, a, key)
	if got := d.seen(); !slices.Equal(got, []string{"NodeStageVolume h-a", "NodePublishVolume h-a"}) {
		t.Errorf("%q", got)
	}
	_, before := server.counts()
	if err := a.inUse.report(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, after := server.counts(); after != before {
		t.Errorf("%d writes of a list that has not changed", after-before)
	}
	// The pod goes. The volume stays reported until it is unstaged.
	if err := server.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	d.set(func(_ context.Context, method string) error {
		if list, err := a.inUse.list(t.Context()); method == "NodeUnstageVolume" && (err != nil || len(list) != 1) {
			t.Errorf("%s: in use %v, %v", method, list, err)
		}
		return nil
	})
	run(t, a, key)
	if list, err := a.inUse.list(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("in use at the end: %v, %v", list, err)
	}
}

// 5.10: a pod that the API server had at the first question is read again: it may end without ever
// being in the cache.
func TestPodIsAlive(t *testing.T) {
	pod, _, _ := one("a")
	for row, tc := range map[string]struct {
		then  func(*api) // after the first question
		first bool
		alive bool
		reads int // of the second question
	}{
		"it stays":      {func(*api) {}, true, true, 1},
		"it is deleted": {func(s *api) { _ = s.Delete(t.Context(), pod.DeepCopy()) }, true, false, 1},
		"another pod has its name": {func(s *api) {
			_ = s.Delete(t.Context(), pod.DeepCopy())
			later := pod.DeepCopy()
			later.UID, later.ResourceVersion = "later", ""
			_ = s.Create(t.Context(), later)
		}, true, false, 1},
		"it is finished": {func(s *api) {
			ended := pod.DeepCopy()
			_ = s.Get(t.Context(), client.ObjectKeyFromObject(pod), ended)
			ended.Status.Phase = corev1.PodSucceeded
			if err := s.Status().Update(t.Context(), ended); err != nil {
				t.Error(err)
			}
		}, true, false, 1},
	} {
		server := newAPI(pod.DeepCopy())
		a, _ := newAgent(t) // its cache is empty
		a.Live = server
		ref := verdict.Ref{What: mounting.RefPod, Name: string(pod.UID)}
		s, err := a.Read(t.Context(), mounting.Snapshot{}, []verdict.Ref{ref})
		if err != nil || s.Alive[pod.UID] != tc.first {
			t.Errorf("%s: %v, %v", row, s.Alive, err)
		}
		tc.then(server)
		before, _ := server.counts()
		s, err = a.Read(t.Context(), mounting.Snapshot{}, []verdict.Ref{ref})
		after, _ := server.counts()
		if err != nil || s.Alive[pod.UID] != tc.alive || after-before != tc.reads {
			t.Errorf("%s: then %v, %v, %d reads", row, s.Alive, err, after-before)
		}
	}
}

// A driver that hangs ends with its deadline, and holds up no volume of another one.
func TestDriverHangs(t *testing.T) {
	other := "other.test"
	pod, claim, pv := one("a")
	pod2, claim2, pv2 := one("b")
	pv2.Spec.CSI.Driver = other
	info2 := csiDriver(false)
	info2.Name = other
	a, _ := newAgent(t, theNode(), csiDriver(false), info2, pod, claim, pv, pod2, claim2, pv2)
	a.Timeout = time.Second // enough for the driver that works, on a slow machine
	hangs, _ := register(t, a, driverName)
	works, _ := register(t, a, other)
	called := make(chan struct{})
	hangs.set(func(ctx context.Context, method string) error {
		if method == "NodeStageVolume" {
			close(called)
			<-ctx.Done()
		}
		return ctx.Err()
	})
	var waiting sync.WaitGroup
	s, err := a.Gather(t.Context(), keyOf("a"))
	if err != nil {
		t.Fatal(err)
	}
	waiting.Go(func() {
		if f := a.stage(t.Context(), s, s.Uses[0]); f == nil || f.NoAnswer || f.Code != codes.DeadlineExceeded {
			t.Errorf("%+v", f)
		}
	})
	<-called
	run(t, a, mounting.Key{Driver: other, Handle: "h-b"})
	if got := works.seen(); len(got) != 2 {
		t.Errorf("%q", got)
	}
	waiting.Wait()
	if d, known := a.records.get(keyOf("a")).Device(idOf("a").Device()); !known || d.State != mounting.Uncertain {
		t.Errorf("%+v", a.records.get(keyOf("a")))
	}
}

// A driver that restarts at its socket is called again without being registered again.
func TestDriverRestarts(t *testing.T) {
	pod, claim, pv := one("a")
	a, _ := newAgent(t, theNode(), csiDriver(false), pod, claim, pv)
	d, stop := register(t, a, driverName)
	s, err := a.Gather(t.Context(), keyOf("a"))
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if f := a.stage(t.Context(), s, s.Uses[0]); f == nil {
		t.Error("staged without a driver")
	}
	d.serve(t, a)
	deadline := time.Now().Add(20 * time.Second)
	for a.stage(t.Context(), s, s.Uses[0]) != nil { // until the connection is there again
		if time.Now().After(deadline) {
			t.Fatal("the driver is not reached again")
		}
	}
	run(t, a, keyOf("a"))
	if p, _ := a.records.get(keyOf("a")).Publication(idOf("a")); p.State != mounting.Certain {
		t.Errorf("%+v", a.records.get(keyOf("a")))
	}
}

// 5.2: the pods that keep their volumes are found although claim and PersistentVolume are gone.
func TestHolders(t *testing.T) {
	running, _, _ := one("a")
	finished, _, _ := one("b")
	finished.Status.Phase = corev1.PodSucceeded
	elsewhere, _, _ := one("c")
	elsewhere.Spec.NodeName = "other"
	a, _ := newAgent(t, running, finished, elsewhere)
	key := keyOf("a")
	for _, name := range []string{"a", "b", "c", "gone"} {
		a.found(key, idOf(name))
	}
	s, err := a.Gather(t.Context(), key)
	if err != nil || len(s.Holders) != 1 || !s.Holders["uid-a"] {
		t.Errorf("%v, %v", s.Holders, err)
	}
}
