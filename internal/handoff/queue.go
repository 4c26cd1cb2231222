package handoff

import (
	"cmp"
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Queue has the claims that were handed over. It implements the interfaces of internal/binder
// and internal/provision. Its content is lost with the process and need not be durable: the
// binder of the next process hands over each claim without a volume again.
type Queue struct {
	mu      sync.Mutex
	driver  string // of the registered provisioner; empty for none
	given   map[types.UID]types.NamespacedName
	onGive  []func(claim types.NamespacedName, uid types.UID)
	changed []func(driver string)
}

// New returns a queue without a registered provisioner.
func New() *Queue { return &Queue{given: map[types.UID]types.NamespacedName{}} }

// Takes reports whether a provisioner for the driver is registered now.
func (d *Queue) Takes(driver string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return driver != "" && d.driver == driver
}

// Drivers returns the drivers with a registered provisioner.
func (d *Queue) Drivers() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.driver == "" {
		return nil
	}
	return []string{d.driver}
}

// Give hands a claim over to the provisioner; a second time requeues it. Without a registered
// provisioner it does nothing: the binder gets the change from OnChange and writes the annotation.
func (d *Queue) Give(claim *corev1.PersistentVolumeClaim) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.driver == "" {
		return
	}
	d.given[claim.UID] = client.ObjectKeyFromObject(claim)
	for _, tell := range d.onGive {
		tell(d.given[claim.UID], claim.UID)
	}
}

// Has reports whether the claim was handed over and is not bound yet.
func (d *Queue) Has(uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.given[uid]
	return ok
}

// Forget removes a claim that is bound or deleted.
func (d *Queue) Forget(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.given, uid)
}

// Subscribe calls tell for each present and each later claim. tell must not block, nor call the
// Queue.
func (d *Queue) Subscribe(tell func(claim types.NamespacedName, uid types.UID)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for uid, claim := range d.given {
		tell(claim, uid)
	}
	d.onGive = append(d.onGive, tell)
}

// OnChange calls tell when the result of [Queue.Takes] changes for a driver.
func (d *Queue) OnChange(tell func(driver string)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = append(d.changed, tell)
}

// register sets the driver of the running provisioner. Claims of the previous one are removed.
func (d *Queue) register(driver string) {
	d.mu.Lock()
	about := cmp.Or(driver, d.driver)
	if d.driver = driver; driver == "" {
		clear(d.given)
	}
	changed := d.changed
	d.mu.Unlock()
	for _, tell := range changed {
		tell(about)
	}
}

// Registration registers a provisioner while it leads. It is a runnable of its manager, which
// starts and stops it with the lease.
type Registration struct {
	Queue  *Queue
	Driver string
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (Registration) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (a Registration) Start(ctx context.Context) error {
	a.Queue.register(a.Driver)
	defer a.Queue.register("")
	<-ctx.Done()
	return nil
}
