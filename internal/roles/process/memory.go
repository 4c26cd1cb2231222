package process

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// usualGarbage is the runtime's own: garbage for as much again as is alive.
	usualGarbage = 100
	// spareGarbage is how many bytes of garbage there may be however little is alive. By the
	// runtime's own rule a small process collects every few milliseconds amid a burst of work,
	// which waits for it.
	spareGarbage = 24 << 20
	// mostGarbage bounds what the next collection may find when much has come alive since the last
	// one.
	mostGarbage = 400
	// thriftyGarbage is for the first list of all claims and volumes, of which a small part is
	// kept. It costs processor time once.
	thriftyGarbage = 25
	// giveBackEvery is how often memory that nothing is in goes back to the machine. The runtime
	// itself keeps what a burst of work has once needed.
	giveBackEvery = time.Minute
	// calmTime is for the work that a first list causes.
	calmTime = 3 * time.Second
	// worthwhile is how many bytes must have been in use since the last time: a process with
	// nothing to do has nothing to give back, and looking for it is most of the processor time that
	// it needs.
	worthwhile = 8 << 20
)

// SaveMemory keeps the process small while there is nothing to do, and as fast as ever when there
// is. Who sets GOGC or GOMEMLIMIT has decided otherwise.
func SaveMemory(mgr manager.Manager) error {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	debug.SetGCPercent(thriftyGarbage)
	return mgr.Add(memorySaver{mgr})
}

// memorySaver is a runnable of the manager, on leaders and standbys alike.
type memorySaver struct{ mgr manager.Manager }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (memorySaver) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (m memorySaver) Start(ctx context.Context) error {
	m.mgr.GetCache().WaitForCacheSync(ctx)
	spare(ctx)
	var before uint64
	for pause := calmTime; ; pause = giveBackEvery {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
			if before == 0 || allocated()-before > worthwhile { // the start has always touched more than is needed
				m.giveBack(ctx)
				before = allocated()
			}
		}
	}
}

// spare sets how much garbage there may be, again after each collection until ctx ends.
func spare(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	percent := garbageBeside(measured("/gc/heap/live:bytes"))
	if uint64(percent) != measured("/gc/gogc:percent") { // setting it stops the world
		debug.SetGCPercent(percent)
	}
	runtime.AddCleanup(new([64]byte), spare, ctx) // unreachable, so the next collection runs the cleanup
}

// garbageBeside is the garbage that there may be beside so many bytes alive, in percent of them.
func garbageBeside(alive uint64) int {
	return int(min(max(usualGarbage, 100*spareGarbage/max(alive, 1)), mostGarbage))
}

// giveBack is a help and no more: where the kernel does not tell what there is, nothing is lost.
func (memorySaver) giveBack(ctx context.Context) {
	debug.FreeOSMemory()
	if err := letGoOfProgram(); err != nil {
		logr.FromContextOrDiscard(ctx).V(4).Info("the pages of the program stay in memory", "why", err.Error())
	}
}

// allocated is how many bytes this process has ever asked for.
func allocated() uint64 { return measured("/gc/heap/allocs:bytes") }

// measured is a number that the runtime keeps of itself.
func measured(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
