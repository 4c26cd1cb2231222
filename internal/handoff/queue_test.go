package handoff

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const driver = "csi.example"

func claim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "crew", Name: name, UID: types.UID("uid-" + name)}}
}

// attended is a queue with a registered provisioner, and the claims it was given.
func attended() (d *Queue, told *[]string) {
	d, told = New(), &[]string{}
	d.register(driver)
	d.Subscribe(func(claim types.NamespacedName, uid types.UID) { *told = append(*told, claim.String()+" "+string(uid)) })
	return d, told
}

func TestGive(t *testing.T) {
	d, told := attended()
	d.Give(claim("a"))
	d.Give(claim("b"))
	d.Give(claim("a")) // the binder retries, and so must the provisioner: it may have declined on a stale cache
	if want := []string{"crew/a uid-a", "crew/b uid-b", "crew/a uid-a"}; !slices.Equal(*told, want) {
		t.Errorf("told %q, want %q", *told, want)
	}
	d.Forget("uid-a")
	if d.Has("uid-a") || !d.Has("uid-b") {
		t.Error("the claim that is bound is forgotten, and no other")
	}
	d.Give(claim("a")) // its volume went, say, before they were bound
	if !d.Has("uid-a") || len(*told) != 4 {
		t.Errorf("given again: told %q", *told)
	}
	var late []string
	d.Subscribe(func(claim types.NamespacedName, _ types.UID) { late = append(late, claim.Name) })
	slices.Sort(late)
	if !slices.Equal(late, []string{"a", "b"}) {
		t.Errorf("a handler that is added late gets %q", late)
	}
}

func TestTakesTheRegisteredDriver(t *testing.T) {
	d, _ := attended()
	if !d.Takes(driver) || d.Takes("another.example") || d.Takes("") || New().Takes(driver) || New().Takes("") {
		t.Error("a claim is taken for the driver whose provisioner is at work, and for no other")
	}
}

// A queue without a provisioner must not swallow a claim: the binder writes an annotation then, for
// the provisioner that reads it.
func TestNoProvisionerRegistered(t *testing.T) {
	d := New()
	d.Give(claim("a"))
	if d.Has("uid-a") {
		t.Error("a claim was given although no provisioner is registered")
	}
}

func TestRegistration(t *testing.T) {
	d := New()
	changes := make(chan bool, 2)
	d.OnChange(func(string) { changes <- d.Takes(driver) })
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Registration{Queue: d, Driver: driver}.Start(ctx) }()
	if !<-changes {
		t.Fatal("the provisioner is at work, and its claims are not taken")
	}
	d.Give(claim("a"))
	leave()
	if <-changes {
		t.Error("the lease is lost, and claims are still taken")
	}
	if err := <-ended; err != nil || d.Has("uid-a") {
		t.Errorf("after the end: error %v, the claim is kept: %t", err, d.Has("uid-a"))
	}
	if !(Registration{}).NeedLeaderElection() {
		t.Error("a standby does not work, so it must not take claims")
	}
}
