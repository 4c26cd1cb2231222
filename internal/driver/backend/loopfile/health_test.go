package loopfile

import (
	"errors"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"golang.org/x/sys/unix"
)

// The kernel makes a filesystem read-only when it finds an error, which is a problem. A read-only
// mount that the pod requested is none.
func TestHealthOfWhatBecameReadOnly(t *testing.T) {
	eachKind(t, func(r *rig, c backend.Capability, bytes int64) {
		if c.Type == backend.Block {
			return
		}
		v := r.create(request("vol", c, bytes))
		at := r.stage(v.ID, c)
		wantHealth := func(what string) {
			r.Helper()
			if problem, err := r.Health(r.Context(), v.ID); err != nil || (problem.Reason == "") != (what == "") || !strings.Contains(problem.Message, what) {
				r.Errorf("Health = %+v, %v, want %q", problem, err, what)
			}
		}
		wantHealth("")
		// The filesystem alone, as the kernel does it, and not its mount.
		fs, err := unix.Fspick(unix.AT_FDCWD, at, unix.FSPICK_CLOEXEC)
		if err != nil {
			r.Skip("needs a kernel with fspick: ", err)
		}
		if err := errors.Join(unix.FsconfigSetFlag(fs, "ro"), unix.FsconfigReconfigure(fs), unix.Close(fs)); err != nil {
			r.Fatal(err)
		}
		wantHealth("read-only")
		r.unstage(v.ID)
		c.MountFlags = []string{"ro"}
		r.stage(v.ID, c)
		wantHealth("")
	})
}
