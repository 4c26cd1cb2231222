package process

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestGarbageBeside(t *testing.T) {
	for _, tc := range []struct {
		name  string
		alive uint64
		want  int
	}{
		{"nothing", 0, mostGarbage},
		{"little", 1 << 20, mostGarbage},
		{"a process without volumes", 8 << 20, 300},
		{"as much as may be garbage", spareGarbage, usualGarbage},
		{"a large cluster", 1 << 30, usualGarbage},
	} {
		if got := garbageBeside(tc.alive); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// After a burst of work has left a large live heap, GOGC is back at its default from the next
// collection on.
func TestSpareGarbageFollowsTheLiveHeap(t *testing.T) {
	before := debug.SetGCPercent(usualGarbage)
	defer debug.SetGCPercent(before)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	spare(ctx)
	much := make([]byte, 8*spareGarbage)
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		runtime.GC()
		now := measured("/gc/gogc:percent")
		if now == usualGarbage {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("beside %d bytes alive: %d percent", len(much), now)
		}
	}
	runtime.KeepAlive(much)
}
