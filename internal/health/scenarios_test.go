package health

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/csirpc"
	health "github.com/purser-csi/purser/internal/health/rules"
)

// The letters of a script. Each is a list's interval, or for a driver that does not list, a period.
var letters = map[byte][]*csi.VolumeHealth_VolumeHealthEntry{
	'.': nil,
	'x': {{Status: csi.VolumeHealthErrorType_INACCESSIBLE, Reason: "Gone", Message: "no disk"}},
	'd': {{Status: csi.VolumeHealthErrorType_DEGRADED, Reason: "PathLost", Message: "one of two paths"}},
	'l': {{Status: csi.VolumeHealthErrorType_DATA_LOSS, Reason: "BadBlocks", Message: "3 blocks"}},
	'b': {
		{Status: csi.VolumeHealthErrorType_DEGRADED, Reason: "PathLost"},
		{Status: csi.VolumeHealthErrorType_DEGRADED, Reason: "Slow"},
	},
	'u': {{Status: 9, Reason: "New"}},
	'w': {{Status: csi.VolumeHealthErrorType_DEGRADED, Reason: "no words", Message: strings.Repeat("ä", 700)}},
}

// plays returns a driver's answers by a script; its last letter lasts. An e is an error.
func plays(script string, step time.Duration) func(string, time.Time) ([]*csi.VolumeHealth_VolumeHealthEntry, error) {
	return func(handle string, now time.Time) ([]*csi.VolumeHealth_VolumeHealthEntry, error) {
		if handle != "h0" {
			return nil, nil
		}
		letter := script[min(int(now.Sub(start)/step), len(script)-1)]
		if letter == 'e' {
			return nil, status.Error(codes.Unavailable, "no backend")
		}
		return letters[letter], nil
	}
}

const (
	abnormal  = "Warning VolumeConditionAbnormal"
	recovered = "Normal VolumeConditionNormal"
	unknown   = "Warning UnknownVolumeHealthCondition"
)

// What a user sees and the driver is called for, by what the driver says over time. List counts the lists
// and get the calls about single volumes.
func TestScenarios(t *testing.T) {
	before := corev1.VolumeHealthCondition{Status: corev1.VolumeHealthInaccessible, Reason: "Gone", Message: "no disk"}
	for _, tc := range []struct {
		name      string
		lists     bool
		server    string
		script    string
		stored    bool // the claim has the condition of x before
		events    string
		end       string // what the claim has at the end
		writes    int
		list, get int
	}{
		{"HM-42: a healthy volume", true, gateOn, "....", false, "", "", 0, 4, 0},
		{"HM-42: a problem, from the second list on", true, gateOn, ".xxx", false, abnormal, "Inaccessible/Gone", 1, 4, 0},
		{"HM-14: a problem that ends", true, gateOn, ".xx.", false, abnormal + ", " + recovered, "", 2, 4, 1},
		{"HM-14: an end that lasts makes no second event", true, gateOn, ".x......", false, abnormal + ", " + recovered, "", 2, 8, 1},
		{
			"HM-H2: a problem that lasts has its event again after half an hour", true, gateOn, "xxxxxxxxxx", false,
			abnormal + ", " + abnormal, "Inaccessible/Gone", 1, 10, 0,
		},
		{"HM-44: another problem replaces the first", true, gateOn, "xxl", false, abnormal + ", " + abnormal, "DataLoss/BadBlocks", 2, 3, 0},
		{"HM-33: two conditions of one status", true, gateOn, "dbb", false, abnormal + ", " + abnormal, "Degraded/PathLost Degraded/Slow", 2, 3, 0},
		{"HM-15: a list that fails changes nothing", true, gateOn, "xeex", false, abnormal, "Inaccessible/Gone", 1, 4, 0},
		{"HM-42: no list succeeds, and a condition is stored", true, gateOn, "eeee", true, "", "Inaccessible/Gone", 0, 4, 0},
		{"HM-42: a condition of the process before, confirmed", true, gateOn, "xx", true, abnormal, "Inaccessible/Gone", 0, 2, 0},
		{"HM-42: a condition of the process before that has ended", true, gateOn, "...", true, recovered, "", 1, 3, 1},
		{"HM-46: the gate is off", true, gateOff, ".xxx", false, abnormal, "", 0, 4, 0},
		{"HM-46: the gate is off, and the problem ends", true, gateOff, ".xx..", false, abnormal + ", " + recovered, "", 0, 5, 1},
		{"HM-18: the role of older versions may not write", true, forbidden, ".xxx", false, abnormal, "", 0, 4, 0},
		{"HM-44: a write that fails is tried again", true, broken, "xx", false, abnormal, "Inaccessible/Gone", 1, 2, 0},
		{"HM-47: an unknown status", true, gateOn, "uuu", false, unknown, "", 0, 3, 0},
		{"HM-47: a problem, then an unknown status: not healthy", true, gateOn, "xuu", false, abnormal + ", " + unknown, "", 2, 3, 0},
		{"HM-30: a reason and a message beyond the limits", true, gateOn, "www", false, abnormal, "Degraded/nowords", 1, 3, 0},
		{"HM-43: a healthy volume of a driver that does not list", false, gateOn, ".....", false, "", "", 0, 0, 5},
		{"HM-43: a problem that begins and ends", false, gateOn, ".xx..", false, abnormal + ", " + recovered, "", 2, 0, 5},
		{"HM-15: a call that fails is no verdict, and has no retry of its own", false, gateOn, "xeeex", false, abnormal, "Inaccessible/Gone", 1, 0, 5},
		{"HM-15: a driver that is down from the start", false, gateOn, "eeeee", true, "", "Inaccessible/Gone", 0, 0, 5},
		{"HM-43: a condition of the process before that has ended", false, gateOn, ".....", true, recovered, "", 1, 0, 5},
		{
			"HM-H2: flapping", false, gateOn, ".x.x.x.x.x.x.x.x", false,
			strings.Join([]string{abnormal, recovered, abnormal, abnormal}, ", "), "Inaccessible/Gone", 3, 0, 16,
		},
		{
			"HM-H2: flapping of a listed volume that ends", true, gateOn, ".x.x.x.......", false,
			strings.Join([]string{abnormal, recovered, abnormal, recovered, abnormal, recovered}, ", "), "", 6, 13, 3,
		},
		{
			"HM-H2: flapping that ends", false, gateOn, ".x.x.x................", false,
			strings.Join([]string{abnormal, recovered, abnormal, abnormal, recovered}, ", "), "", 4, 0, 22,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			step := time.Minute
			if tc.lists {
				step = 5 * time.Minute
			}
			var stored []corev1.VolumeHealthCondition
			if tc.stored {
				stored = append(stored, before)
			}
			r := newRig(t, tc.lists, tc.server, 1, stored...)
			r.driver.state = plays(tc.script, step)
			r.play(time.Duration(len(tc.script)) * step)
			end := ""
			if status := r.health(); status != nil {
				var parts []string
				for _, c := range status.HealthConditions {
					parts = append(parts, string(c.Status)+"/"+c.Reason)
				}
				end = strings.Join(parts, " ")
			}
			if got := strings.Join(r.events, ", "); got != tc.events {
				t.Errorf("events %s, want %s", got, tc.events)
			}
			if tc.server == gateOn && !strings.Contains(tc.script, "e") && (end != "") != (len(r.state().Claims) > 0) {
				t.Errorf("the claim has %q, the metrics %v", end, r.state().Claims)
			}
			if end != tc.end || r.writes != tc.writes {
				t.Errorf("the claim has %q after %d writes, want %q after %d", end, r.writes, tc.end, tc.writes)
			}
			if want := map[string]int{methodList: tc.list, methodGet: tc.get}; r.driver.calls[methodList] != tc.list ||
				r.driver.calls[methodGet] != tc.get {
				t.Errorf("calls %v, want %v", r.driver.calls, want)
			}
			if (tc.server == gateOff || tc.server == forbidden) && r.refused > 2 {
				t.Errorf("%d writes that the API server does not keep", r.refused)
			}
		})
	}
}

// HM-30: the time of the last transition is that of the set; another message keeps it.
func TestTransitionTime(t *testing.T) {
	r := newRig(t, true, gateOn, 1)
	said := "1 error"
	r.driver.state = func(string, time.Time) ([]*csi.VolumeHealth_VolumeHealthEntry, error) {
		return []*csi.VolumeHealth_VolumeHealthEntry{{
			Status: csi.VolumeHealthErrorType_DEGRADED, Reason: "Errors", Message: said,
		}}, nil
	}
	r.play(time.Minute)
	began := r.health().LastTransitionTime
	said = "2 errors"
	r.play(6 * time.Minute)
	if status := r.health(); !status.LastTransitionTime.Equal(&began) || status.HealthConditions[0].Message != said {
		t.Errorf("since %s: %+v", began, status)
	}
}

// HM-20: a token that the driver does not know any more begins the list again, once.
func TestListBeginsAgain(t *testing.T) {
	for aborts, complete := range map[int]bool{1: true, 2: false} {
		r := newRig(t, true, gateOn, 700)
		r.driver.abort = aborts
		r.driver.state = func(string, time.Time) ([]*csi.VolumeHealth_VolumeHealthEntry, error) {
			return letters['d'], nil
		}
		r.listOnce(t.Context())
		if got := !r.memory.list.at.IsZero(); got != complete || complete && len(r.memory.list.reports) != 700 {
			t.Errorf("%d aborted pages: complete %t, %d reports", aborts, got, len(r.memory.list.reports))
		}
	}
}

// A list that exceeds a bound is not complete: it changes nothing, and is logged once.
func TestListBounds(t *testing.T) {
	for name, tc := range map[string]struct {
		next  func(call int) string
		calls int // of two lists
	}{
		"one token again and again": {func(int) string { return "0" }, 4},
		"tokens in a circle":        {func(call int) string { return []string{"0", "00", "000"}[call%3] }, 8},
		"too many pages":            {func(call int) string { return "page " + strconv.Itoa(call) }, 2 * csirpc.MostPages},
	} {
		t.Run("HM-42: "+name, func(t *testing.T) {
			r := newRig(t, true, gateOn, 1)
			r.driver.state, r.driver.next = plays("d", time.Minute), tc.next
			var logged []string
			ctx := logr.NewContext(t.Context(), funcr.New(
				func(_, args string) { logged = append(logged, args) }, funcr.Options{},
			))
			r.listOnce(ctx)
			r.listOnce(ctx)
			if !r.memory.list.at.IsZero() || len(logged) != 1 || !strings.Contains(logged[0], wholeList) {
				t.Errorf("complete: %t, logged: %s", !r.memory.list.at.IsZero(), logged)
			}
			if got := r.driver.calls[methodList]; got != tc.calls {
				t.Errorf("%d calls, want %d", got, tc.calls)
			}
			r.driver.next = nil
			r.listOnce(ctx)
			if r.memory.list.at.IsZero() || len(logged) != 2 {
				t.Errorf("after it: complete: %t, logged: %s", !r.memory.list.at.IsZero(), logged)
			}
		})
	}
	t.Run("HM-42: too many volumes", func(t *testing.T) {
		r := newRig(t, true, gateOn, 1)
		r.driver.state = func(string, time.Time) ([]*csi.VolumeHealth_VolumeHealthEntry, error) {
			return letters['d'], nil
		}
		for i := range mostListed {
			r.driver.handles = append(r.driver.handles, "other-"+strconv.Itoa(i))
		}
		r.CSI = onePage{r.driver}
		if r.listOnce(t.Context()); !r.memory.list.at.IsZero() {
			t.Errorf("a list of %d volumes is complete", len(r.memory.list.reports))
		}
		r.driver.handles = r.driver.handles[:mostListed]
		if r.listOnce(t.Context()); r.memory.list.at.IsZero() {
			t.Errorf("a list of %d volumes is not complete", mostListed)
		}
	})
}

// onePage is a driver whose list is one page, whatever the request asks for.
type onePage struct{ *driver }

func (d onePage) ControllerListVolumeHealth(
	ctx context.Context, r *csi.ControllerListVolumeHealthRequest, _ ...grpc.CallOption,
) (*csi.ControllerListVolumeHealthResponse, error) {
	r.MaxEntries = 1 << 30
	return d.driver.ControllerListVolumeHealth(ctx, r)
}

// Two writers whose conditions differ do not overwrite each other without a pause.
func TestSecondWriter(t *testing.T) {
	r := newRig(t, true, webhook, 1)
	r.driver.state = plays("xd", 5*time.Minute)
	r.play(5 * time.Minute)
	if r.writes != 5 {
		t.Errorf("%d writes in five minutes, want one a minute", r.writes)
	}
	r.play(5*time.Minute + time.Second) // the sixth, and another condition, which is written at once
	if got := r.health().HealthConditions[0].Reason; r.writes != 7 || got != "PathLost" {
		t.Errorf("%d writes, the last one of %s", r.writes, got)
	}
}

// HM-46: that the API server removes or updates a field that exists says nothing about its gate.
func TestRollbackOfTheGate(t *testing.T) {
	old := corev1.VolumeHealthCondition{Status: corev1.VolumeHealthDegraded, Reason: "Slow"}
	for _, tc := range []struct {
		name    string
		volume  string
		write   health.Conditions
		refused bool
	}{
		{"HM-46: a removal", "v0", nil, true},
		{"HM-46: an update", "v0", health.Conditions{{Status: corev1.VolumeHealthDataLoss, Reason: "Bad"}}, true},
		{"HM-46: a new field", "v1", health.Conditions{old}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, true, gateOn, 2, old)
			r.memory.setRefused(start)
			s, err := r.Gather(t.Context(), tc.volume)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.store(t.Context(), s, health.Store{Conditions: tc.write}); err != nil || r.writes != 1 {
				t.Fatal(err, r.writes)
			}
			if got := !r.memory.refused.IsZero(); got != tc.refused {
				t.Errorf("refused: %t, want %t", got, tc.refused)
			}
		})
	}
}

// HM-20: healthy volumes should be left out of the list. Those of a driver that lists them are no work.
func TestListWithHealthyVolumes(t *testing.T) {
	r := newRig(t, true, gateOn, 20)
	r.driver.listAll, r.driver.state = true, plays("dd", 5*time.Minute)
	r.listOnce(t.Context())
	if n := len(r.memory.list.reports); n != 1 {
		t.Errorf("%d reports of volumes with problems, want 1", n)
	}
}

// HM-H1, HM-H2: thousands of volumes are checked in bounded calls.
func TestThousandsOfVolumes(t *testing.T) {
	const volumes = 3000
	bad := func(from, to time.Duration) func(string, time.Time) ([]*csi.VolumeHealth_VolumeHealthEntry, error) {
		return func(_ string, now time.Time) ([]*csi.VolumeHealth_VolumeHealthEntry, error) {
			if since := now.Sub(start); since < from || since >= to {
				return nil, nil
			}
			return letters['d'], nil
		}
	}
	t.Run("listed, all healthy: one page", func(t *testing.T) {
		r := newRig(t, true, gateOn, volumes)
		r.driver.state = bad(0, 0)
		r.play(5 * time.Minute)
		want(t, r, map[string]int{methodList: 1})
	})
	t.Run("listed, all bad, then all healthy: six pages, and each is confirmed once", func(t *testing.T) {
		r := newRig(t, true, gateOn, volumes)
		r.driver.state = bad(0, 5*time.Minute)
		r.play(15 * time.Minute)
		want(t, r, map[string]int{methodList: volumes/entriesOfPage + 2, methodGet: volumes})
		if r.writes != 2*volumes {
			t.Errorf("%d writes", r.writes)
		}
	})
	t.Run("not listed: each once in the period that their number needs", func(t *testing.T) {
		r := newRig(t, false, gateOn, volumes)
		r.driver.state = bad(0, 0)
		r.play(health.Period(volumes, time.Minute))
		want(t, r, map[string]int{methodGet: volumes})
	})
	t.Run("not listed, and down: no more calls than in good times", func(t *testing.T) {
		r := newRig(t, false, gateOn, volumes)
		r.driver.state = func(string, time.Time) ([]*csi.VolumeHealth_VolumeHealthEntry, error) {
			return nil, status.Error(codes.Unavailable, "no backend")
		}
		r.play(health.Period(volumes, time.Minute))
		want(t, r, map[string]int{methodGet: volumes})
	})
}

// want checks the calls, and that there was no burst of them.
func want(t *testing.T, r *rig, calls map[string]int) {
	t.Helper()
	if !maps.Equal(r.driver.calls, calls) {
		t.Errorf("calls %v, want %v", r.driver.calls, calls)
	}
	for second, n := range r.driver.seconds {
		if n > 4*health.CallsPerSecond {
			t.Errorf("%d calls in the second %d", n, second-start.Unix())
		}
	}
}

// HM-48: the metrics of the shown state, and of the calls.
func TestMeasures(t *testing.T) {
	r := newRig(t, true, gateOff, 3)
	r.driver.state = plays("du", 5*time.Minute)
	state := r.state()
	if got := fmt.Sprint(state.Volumes); got != "map[{fast Unknown}:3]" {
		t.Errorf("before the first list: %s", got)
	}
	r.play(4 * time.Minute)
	state = r.state()
	got := fmt.Sprint(state.Volumes, state.Claims)
	if got != "map[{fast Degraded}:1 {fast Healthy}:2] [{ns c0 Degraded}]" {
		t.Errorf("with a problem: %s", got)
	}
	r.play(6 * time.Minute)
	for name, want := range map[string]float64{
		"csi_volume_health_probe_total": 2, "csi_volume_health_status_writes_dropped_total": 1,
		"csi_volume_health_unknown_condition_total": 1, "csi_volume_health_probe_duration_seconds": 2,
		"purser_volume_health_volumes": 3, "csi_controller_volume_health_status": 0,
	} {
		if got := r.sum(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}
