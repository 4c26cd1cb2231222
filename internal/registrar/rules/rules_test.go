package rules

import (
	"strings"
	"testing"
	"time"
)

const dir = "/registration"

// The step for each state of driver and socket.
func TestNext(t *testing.T) {
	answers := Driver{Name: "csi.example.com"}
	hangs := Driver{Problem: "context deadline exceeded"}
	lost := Driver{Name: "csi.example.com", Problem: "connection refused"}
	moved := Driver{Name: "csi.example.com", Node: "i-2"}
	ours := Published{Name: "csi.example.com", Node: "i-1"}
	unknown := Published{Name: "csi.example.com"}
	for _, tc := range []struct {
		row    string
		state  State
		action Action
		says   string
		retry  bool
	}{
		{"NR-11 the driver answers", State{Driver: answers}, Publish, "", false},
		{"NR-11 a stale socket is replaced", State{Driver: answers, Socket: SocketStale}, Publish, "", false},
		{"NR-11 the socket of a live process is replaced at the start", State{Driver: answers, Socket: SocketServed}, Publish, "", false},
		{"NR-11 a file is not removed", State{Driver: answers, Socket: SocketNotOne}, Keep, "no socket at /registration/csi.example.com-reg.sock; remove it", true},
		{"NR-11 the folder is missing", State{Driver: answers, Socket: SocketUnknown}, Keep, "cannot be read", true},
		{"NR-11 an empty name", State{Driver: Driver{Problem: "the csi driver answers GetPluginInfo with an empty name"}}, Keep, "empty name", true},
		{"NR-H5 a driver that hangs", State{Driver: hangs}, Keep, "waiting for the csi driver: context deadline exceeded", true},
		{"NR-H5 it answered once, and nothing was published", State{Driver: lost}, Keep, "waiting for the csi driver: connection refused", true},
		{"NR-16 the driver is lost", State{Driver: lost, Published: ours, Socket: SocketOurs}, Keep, "does not answer: connection refused", true},
		{"NR-16 and the socket, too", State{Driver: lost, Published: ours, Socket: SocketAbsent}, Publish, "does not answer", true},
		{"NR-16 a hanging GetPluginInfo after the start", State{Driver: hangs, Published: ours, Socket: SocketOurs}, Keep, "deadline", true},
		{"NR-12 registered", State{Driver: answers, Published: unknown, Socket: SocketOurs}, Keep, "", false},
		{"NR-H1 the same node", State{Driver: Driver{Name: "csi.example.com", Node: "i-1"}, Published: ours, Socket: SocketOurs}, Keep, "", false},
		{"NR-H1 another node id or topology", State{Driver: moved, Published: ours, Socket: SocketOurs}, Publish, "", false},
		{"NR-H1 the node was not known", State{Driver: moved, Published: unknown, Socket: SocketOurs}, Keep, "", false},
		{"NR-H1 the node is not known any more", State{Driver: answers, Published: ours, Socket: SocketOurs}, Keep, "", false},
		{"NR-H1 another name", State{Driver: Driver{Name: "other"}, Published: ours, Socket: SocketOurs}, Withdraw, "", true},
		{"NR-H2 the socket was deleted", State{Driver: answers, Published: ours, Socket: SocketAbsent}, Publish, "", false},
		{"NR-H2 by a process that ended", State{Driver: answers, Published: ours, Socket: SocketStale}, Publish, "", false},
		{"NR-H2 a newer process has it", State{Driver: answers, Published: ours, Socket: SocketServed}, Keep, "another process registers the driver", true},
		{"NR-H3 after a reboot", State{Driver: hangs, Socket: SocketStale}, Keep, "waiting", true},
		{"NR-15 the end", State{Driver: answers, Published: ours, Socket: SocketOurs, Stopping: true}, Withdraw, "", false},
		{"NR-15 before anything was published", State{Driver: hangs, Stopping: true}, Keep, "", false},
		{"NR-15 with the socket of another process", State{Driver: answers, Published: ours, Socket: SocketServed, Stopping: true}, Keep, "", false},
		{"NR-15 without the socket", State{Driver: answers, Published: ours, Socket: SocketAbsent, Stopping: true}, Keep, "", false},
	} {
		tc.state.Dir = dir
		got := Next(tc.state)
		if got.Action != tc.action || got.Retry != tc.retry || !strings.Contains(got.Problem, tc.says) || tc.says == "" && got.Problem != "" {
			t.Errorf("%s: %+v, want %+v", tc.row, got, tc)
		}
	}
}

// NR-10, NR-11: the name of a driver becomes the name of a file.
func TestNameProblem(t *testing.T) {
	for name, want := range map[string]string{
		"csi.example.com":                "",
		"rook-ceph.rbd.csi.ceph.com":     "",
		"under_score":                    "",
		"":                               "empty",
		"../../etc/passwd":               "letters",
		"a/b":                            "letters",
		".hidden":                        "letters",
		"two words":                      "letters",
		"new\nline":                      "letters",
		strings.Repeat("a", maxName+1):   "64 bytes",
		"\x00":                           "letters",
		"na\u00efve":                     "letters",
		strings.Repeat("a", maxName-1):   "",
		strings.Repeat("b.", maxName/2):  "",
		strings.Repeat("c", 2*maxName):   "126 bytes",
		"bell\a":                         "letters",
		"driver.example.com; rm -rf ~":   "letters",
		"driver.example.com-reg.sock":    "",
		"driver.example.com%2f..%2f..%2": "letters",
	} {
		if got := NameProblem(dir, name); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if got := NameProblem("/"+strings.Repeat("d", MaxSocketPath), "a"); !strings.Contains(got, "shorter path") {
		t.Errorf("a long folder: %q", got)
	}
	if step := Next(State{Driver: Driver{Name: "../x"}, Dir: dir}); step.Action != Keep || !step.Retry {
		t.Errorf("a hostile name: %+v", step)
	}
}

// NR-12, NR-13, NR-H4: what the kubelet has done, and what is said about it.
func TestKubelet(t *testing.T) {
	start := time.Unix(1000, 0)
	published := Kubelet{Published: start}
	asked := published.WasAsked(start.Add(time.Second))
	refused := asked.WasNotified(false, "no Node object")
	for _, tc := range []struct {
		row   string
		state Kubelet
		after time.Duration
		says  string
	}{
		{"NR-11 nothing is published", Kubelet{}, time.Hour, "nothing is published"},
		{"NR-13 not seen yet", published, 2 * time.Second, "has not asked yet"},
		{"NR-13 not seen for long", published, time.Minute, "does it watch this folder"},
		{"NR-13 asked", asked, 10 * time.Second, "has not answered yet"},
		{"NR-13 asked, and NodeGetInfo hangs", asked, 3 * time.Minute, "--kubelet-registration-path"},
		{"NR-12 registered", asked.WasNotified(true, ""), time.Hour, ""},
		{"NR-H4 refused", refused, time.Hour, "refused the driver: no Node object"},
		{"NR-H4 refused without a reason", asked.WasNotified(false, ""), 0, "it gives no reason"},
		{"NR-13 registered at the next attempt", refused.WasAsked(start).WasNotified(true, ""), 0, ""},
		{"NR-H4 refused after it was registered", asked.WasNotified(true, "").WasNotified(false, "gone"), 0, "gone"},
	} {
		if got := tc.state.Problem(start.Add(tc.after)); !strings.Contains(got, tc.says) || tc.says == "" && got != "" {
			t.Errorf("%s: %q, want %q", tc.row, got, tc.says)
		}
	}
}

// NR-H4: a refusal that repeats has an event each time that the number of refusals has doubled.
func TestIsNews(t *testing.T) {
	var state Kubelet
	var events []int
	for i := 1; i <= 20; i++ {
		next := state.WasNotified(false, "no")
		if IsNews(state, next) {
			events = append(events, i)
		}
		state = next
	}
	if len(events) != 5 || events[4] != 16 {
		t.Errorf("events at %v", events)
	}
	if next := state.WasNotified(false, "another reason"); !IsNews(state, next) {
		t.Error("a new reason has no event")
	}
	if next := state.WasNotified(true, ""); IsNews(state, next) || next.Refusals != 0 {
		t.Errorf("registered: %+v", next)
	}
}

// NR-14, NR-H4, NR-H5: the answers of /healthz, and whether the driver is registered.
func TestHealth(t *testing.T) {
	own := Published{Name: "a"}
	for _, tc := range []struct {
		row   string
		check Check
		code  int
		text  string
		ready string
	}{
		{"NR-14 registered", Check{Published: own, Socket: SocketOurs, Name: "a"}, 200, "ok", ""},
		{"NR-14 no socket", Check{Published: own, Socket: SocketAbsent, Failed: "no such file", Kubelet: "not asked"}, 404, "registration socket does not exist", "not asked"},
		{"NR-14 no answer", Check{Published: own, Socket: SocketOurs, Failed: "deadline exceeded"}, 500, "GetInfo of the registration socket: deadline exceeded", ""},
		{"NR-14 another name", Check{Published: own, Socket: SocketServed, Name: "b"}, 500, `the registration socket is that of driver "b", not of "a"`, ""},
		{"NR-H2 another process", Check{Published: own, Socket: SocketServed, Name: "a", Step: Step{Problem: "another process"}}, 200, "ok: another process", ""},
		{"NR-H4 refused", Check{Published: own, Socket: SocketOurs, Name: "a", Kubelet: "refused: no"}, 200, "ok: refused: no", "refused: no"},
		{"NR-H5 waiting", Check{Step: Step{Problem: "waiting for the csi driver: refused"}}, 200, "ok: waiting for the csi driver: refused", "waiting for the csi driver: refused"},
		{"NR-16 the driver is lost", Check{Published: own, Socket: SocketOurs, Name: "a", Step: Step{Problem: "does not answer"}}, 200, "ok: does not answer", "does not answer"},
	} {
		if code, text := Health(tc.check); code != tc.code || text != tc.text {
			t.Errorf("%s: %d %q, want %d %q", tc.row, code, text, tc.code, tc.text)
		}
		if got := Ready(tc.check); got != tc.ready {
			t.Errorf("%s: ready %q, want %q", tc.row, got, tc.ready)
		}
	}
}
