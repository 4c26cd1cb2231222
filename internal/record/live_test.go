package record

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/explain/inventory"
	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
)

func seconds(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }

// What a watch delivers is there as it was at each time.
func TestLive(t *testing.T) {
	l := &Live{}
	l.Object(inventory.Seen{Object: claim(1, corev1.ClaimPending), Initial: true}, seconds(0))
	l.Listed(nil, seconds(1))
	l.Object(inventory.Seen{Before: claim(1, corev1.ClaimPending), Object: claim(2, corev1.ClaimBound)}, seconds(3))
	l.Object(inventory.Seen{Before: claim(2, corev1.ClaimBound), Object: claim(2, corev1.ClaimBound)}, seconds(4))
	l.Object(inventory.Seen{Before: claim(2, corev1.ClaimBound), Object: claim(3, corev1.ClaimBound), Deleted: true}, seconds(5))
	roles := l.Writer()
	roles.Call(life.Call{Name: "CreateVolume", Code: "OK", From: seconds(2), To: seconds(3)})
	roles.Note("once")
	roles.Note("once")
	r := l.Record(seconds(9))
	if r.End() != seconds(9) || len(r.Notes) != 1 || len(r.calls) != 1 || len(r.index.Changes()) != 3 {
		t.Fatalf("end %s, notes %v, %d calls, %d changes", r.End(), r.Notes, len(r.calls), len(r.index.Changes()))
	}
	for at, want := range map[int]string{1: "Pending", 3: "Bound", 4: "Bound", 6: ""} {
		builder, err := r.At(seconds(at))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, c := range builder.Cluster().Claims {
			got = string(c.Status.Phase)
		}
		if got != want {
			t.Errorf("after %d s it is %q, want %q", at, got, want)
		}
	}
	lives := r.History().Lives(explain.Ref{Kind: explain.Claim, Namespace: "shop", Name: "data"})
	if len(lives) != 1 || lives[0].To == nil {
		t.Errorf("lives %+v", lives)
	}
}

// The versions that are kept are bounded, and what remains begins with all objects of its first
// time.
func TestLiveForgets(t *testing.T) {
	l := &Live{}
	l.Object(inventory.Seen{Object: claim(1, corev1.ClaimPending), Initial: true}, seconds(0))
	l.Listed(nil, seconds(0))
	pod := func(n, version int) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprint("p", n), UID: types.UID(fmt.Sprint("p", n)), ResourceVersion: fmt.Sprint(version),
		}}
	}
	for i := range mostVersions + 2 {
		l.Object(inventory.Seen{Object: pod(i%100, i+2)}, seconds(i))
	}
	r := l.Record(seconds(mostVersions + 2))
	if len(r.index.Changes()) > mostVersions {
		t.Errorf("%d versions are kept", len(r.index.Changes()))
	}
	if !r.begin.After(seconds(mostVersions/2 - 2)) {
		t.Errorf("it begins at %s", r.begin)
	}
	builder, err := r.At(r.begin)
	if err != nil {
		t.Fatal(err)
	}
	if c := builder.Cluster(); len(c.Claims) != 1 || len(c.Pods) != 100 {
		t.Errorf("at its begin it has %d claims and %d pods", len(c.Claims), len(c.Pods))
	}
}

// Renewals of a Lease are one version while the holder lives, and a gap between them is kept.
func TestLiveLeases(t *testing.T) {
	l := &Live{}
	lease := func(version, renewed int) *coordinationv1.Lease {
		holder := "me"
		at := metav1.NewMicroTime(seconds(renewed))
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "l", UID: "l", ResourceVersion: fmt.Sprint(version)},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at},
		}
	}
	l.Object(inventory.Seen{Object: lease(1, 0), Initial: true}, seconds(0))
	l.Listed(nil, seconds(0))
	l.Object(inventory.Seen{Object: claim(2, corev1.ClaimPending)}, seconds(4))
	for i := range 5 {
		l.Object(inventory.Seen{Object: lease(i+3, 10*i+5)}, seconds(10*i+5))
	}
	l.Object(inventory.Seen{Object: lease(20, 300)}, seconds(300))
	r := l.Record(seconds(301))
	if len(r.index.Changes()) != 3 {
		t.Fatalf("%d changes", len(r.index.Changes()))
	}
	for at, want := range map[int]int{1: 45, 200: 45, 300: 300} {
		builder, err := r.At(seconds(at))
		if err != nil {
			t.Fatal(err)
		}
		if got := builder.Cluster().Leases[0].Spec.RenewTime.Time; got != seconds(want) {
			t.Errorf("after %d s it was renewed at %s", at, got)
		}
	}
	for _, c := range r.index.Changes() {
		if c.Kind == explain.Claim && c.At != seconds(4) {
			t.Errorf("the claim's time is %s", c.At)
		}
	}
}

// Pages read lives and earlier times while changes arrive, and end with all of them.
func TestLiveWhileChangesArrive(t *testing.T) {
	const changes = 3 * mostPending
	l := &Live{}
	l.Object(inventory.Seen{Object: claim(1, corev1.ClaimPending), Initial: true}, seconds(0))
	l.Listed(nil, seconds(0))
	final := l.Record(seconds(changes)).final()
	arrived := make(chan struct{})
	go func() {
		defer close(arrived)
		for i := range changes {
			l.Object(inventory.Seen{Object: claim(i+2, corev1.ClaimBound)}, seconds(i+1))
		}
	}()
	ref := explain.Ref{Kind: explain.Claim, Namespace: "shop", Name: "data"}
	for isOver := false; !isOver; {
		select {
		case <-arrived:
			isOver = true
		default:
		}
		r := l.Record(seconds(changes))
		if lives := r.HistoryTo(final).Lives(ref); len(lives) != 1 {
			t.Fatalf("%d lives", len(lives))
		}
		if _, err := r.At(seconds(1)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(l.Record(seconds(changes)).HistoryTo(final).VersionsOf(ref)); n != changes+1 {
		t.Errorf("%d versions", n)
	}
}
