package process

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// giveBackEvery is how often unused memory is returned to the operating system. The runtime by
	// itself keeps what a burst of work has needed.
	giveBackEvery = time.Minute
	// calmTime is how long the work that follows the first list may take.
	calmTime = 3 * time.Second
	// worthwhile is how many bytes must have been allocated since memory was last returned. An idle
	// process has nothing to return, and the attempt would be most of the processor time that it
	// uses.
	worthwhile = 8 << 20
)

// SaveMemory returns unused memory while the process is idle. It does nothing if GOGC or GOMEMLIMIT
// is set.
func SaveMemory(mgr manager.Manager) error {
	if !savesMemory() {
		return nil
	}
	return mgr.Add(memorySaver{mgr})
}

// SaveMemoryAlone is [SaveMemory] for a process without a manager. It returns when ctx ends.
func SaveMemoryAlone(ctx context.Context) {
	if savesMemory() {
		saveMemory(ctx)
	}
}

func savesMemory() bool { return os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" }

// memorySaver is a runnable of the manager, on leaders and standbys alike.
type memorySaver struct{ mgr manager.Manager }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (memorySaver) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (m memorySaver) Start(ctx context.Context) error {
	m.mgr.GetCache().WaitForCacheSync(ctx)
	saveMemory(ctx)
	return nil
}

// saveMemory returns unused memory until ctx ends.
func saveMemory(ctx context.Context) {
	var before uint64
	for pause := calmTime; ; pause = giveBackEvery {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
			if before == 0 || allocated()-before > worthwhile { // the start has always touched more than is needed
				giveBack(ctx)
				before = allocated()
			}
		}
	}
}

// giveBack returns unused memory to the operating system, as far as the kernel allows it.
func giveBack(ctx context.Context) {
	debug.FreeOSMemory()
	if err := releaseProgram(); err != nil {
		logr.FromContextOrDiscard(ctx).V(4).Info("the pages of the program stay in memory", "why", err.Error())
	}
}

// allocated returns how many bytes this process has allocated since its start.
func allocated() uint64 { return measured("/gc/heap/allocs:bytes") }

// measured returns a metric of the Go runtime.
func measured(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
