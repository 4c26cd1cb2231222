//go:build linux && amd64

package crash

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/purser-csi/purser/test/tracer"
)

// isFull says whether a step found the disk full: the driver's answer, or what a pod or a kubelet
// gets from the kernel.
func isFull(err error) bool {
	return status.Code(err) == codes.ResourceExhausted || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// beOnAFullDisk is the main of a child whose disk fills at some call. A step that finds it full is
// repeated after the parent has made room.
func beOnAFullDisk(kind, dir string) error {
	if err := tracer.Join(); err != nil {
		return err
	}
	ctx, room := context.Background(), bufio.NewReader(os.Stdin)
	again := func(name string, do func() error) error {
		err := do()
		if isFull(err) {
			fmt.Println("full", name)
			if _, err := room.ReadString('\n'); err != nil {
				return err
			}
			err = do()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Println("did", name)
		return nil
	}
	var l *life
	var stop func() error
	if err := again("start", func() (err error) { l, stop, err = start(ctx, kind, dir); return err }); err != nil {
		return err
	}
	for _, s := range l.steps() {
		if err := again(s.name, func() error { return s.do(ctx) }); err != nil {
			return err
		}
	}
	return stop()
}

// liveFull lets a child live whose disk is full from a call on, until a step reports it.
func liveFull(t *testing.T, kind, dir string, first int, full unix.Errno) (at, reported string) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), childKind+"="+kind, childDir+"="+dir, childFull+"=yes")
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	room, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	trace, err := tracer.StartFull(command, first, full)
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(output); lines.Scan(); {
		name, isReport := strings.CutPrefix(lines.Text(), "full ")
		switch {
		case isReport:
			reported = name
			trace.Relieve()
			if _, err := fmt.Fprintln(room); err != nil {
				t.Error(err)
			}
		case !strings.HasPrefix(lines.Text(), "did "):
			t.Errorf("full from call %d on: %s", first, lines.Text())
		}
	}
	_ = command.Wait() // its last words were read
	_, at, err = trace.Wait()
	if err != nil {
		t.Fatal("trace:", err)
	}
	return at, reported
}

// TestAFullDiskAtEveryStep fills the disk, or the quota, at each call that changes something, for
// good until a step reports it. The driver lives on and says RESOURCE_EXHAUSTED, the repeated step
// succeeds when there is room, what makes room works without any, and nothing is left in the end
// that a life on a disk with room does not leave.
func TestAFullDiskAtEveryStep(t *testing.T) {
	mayTrace(t)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		t.Run(kind, func(t *testing.T) {
			mayHave(t, kind)
			whole := shortDir(t)
			_, calls, _ := live(t, kind, whole, 0)
			if t.Failed() || calls == 0 {
				t.Fatalf("a life on a disk with room: %d calls", calls)
			}
			want := withoutReserve(left(t, whole))
			reports := 0
			for first := 1; first <= calls && !t.Failed(); first += stride(calls) {
				dir := shortDir(t)
				at, reported := liveFull(t, kind, dir, first, []unix.Errno{unix.ENOSPC, unix.EDQUOT}[first%2])
				if reported != "" {
					reports++
				}
				if slices.ContainsFunc([]string{"delete", "end: ", "unpublish", "unstage"}, func(p string) bool { return strings.HasPrefix(reported, p) }) {
					t.Errorf("full from %q (call %d) on: %s needed room", at, first, reported)
				}
				if got := withoutReserve(left(t, dir)); !slices.Equal(got, want) {
					t.Errorf("full from %q (call %d) on, reported by %q: left %q, want %q", at, first, reported, got, want)
				}
			}
			t.Logf("%d calls that change something; %d reports of a full disk", calls, reports)
		})
	}
}

// withoutReserve leaves out what is made again by the next call that needs it.
func withoutReserve(found []string) []string {
	return slices.DeleteFunc(found, func(name string) bool { return strings.HasPrefix(name, "/state/reserve") })
}
