package handoff

import (
	"cmp"
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Queue is the table between the two. It implements what controllers/binder and
// controllers/provision ask of it. What lies there is lost with the process, and needs not be kept:
// a claim without a volume is given again by the binder of the next one.
type Queue struct {
	mu      sync.Mutex
	driver  string // whose provisioner is registered; empty for none
	given   map[types.UID]types.NamespacedName
	told    []func(claim types.NamespacedName, uid types.UID)
	changed []func(driver string)
}

// New returns a queue without a registered provisioner.
func New() *Queue { return &Queue{given: map[types.UID]types.NamespacedName{}} }

// Takes reports whether a provisioner for the driver is at work in this process, at this moment.
func (d *Queue) Takes(driver string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return driver != "" && d.driver == driver
}

// Drivers are those whose provisioner is at work in this process, at this moment.
func (d *Queue) Drivers() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.driver == "" {
		return nil
	}
	return []string{d.driver}
}

// Give has a volume made for the claim. Giving it again has it looked at again. When no provisioner
// attends, nothing happens: the binder is about to be told so, and asks by other means.
func (d *Queue) Give(claim *corev1.PersistentVolumeClaim) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.driver == "" {
		return
	}
	d.given[claim.UID] = client.ObjectKeyFromObject(claim)
	for _, tell := range d.told {
		tell(d.given[claim.UID], claim.UID)
	}
}

// Has reports whether the claim was given and is still to get its volume.
func (d *Queue) Has(uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.given[uid]
	return ok
}

// Forget takes a claim off the desk, which is bound or gone.
func (d *Queue) Forget(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.given, uid)
}

// Subscribe has every claim told that lies here or is given later. What it calls must not wait, nor
// ask the desk.
func (d *Queue) Subscribe(tell func(claim types.NamespacedName, uid types.UID)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for uid, claim := range d.given {
		tell(claim, uid)
	}
	d.told = append(d.told, tell)
}

// OnChange has it told when [Queue.Takes] gives another answer for a driver.
func (d *Queue) OnChange(tell func(driver string)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = append(d.changed, tell)
}

// attend says whose provisioner is at work. Claims that were given to the one before are not for
// the next.
func (d *Queue) attend(driver string) {
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

// Registration is a provisioner's presence at a desk. It is a runnable of its manager, which starts
// and ends it with the lease.
type Registration struct {
	Queue  *Queue
	Driver string
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (Registration) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (a Registration) Start(ctx context.Context) error {
	a.Queue.attend(a.Driver)
	defer a.Queue.attend("")
	<-ctx.Done()
	return nil
}
