package sim

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/ephemeral"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/protection"
	rules "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/test/sim/apiserver"
	"github.com/purser-csi/purser/test/sim/view"
)

// Random histories of claims and pods, against the protection of claims and the claims of ephemeral
// volumes (I10).

// move is one action of a user, the scheduler, a kubelet or the garbage collector.
type move struct {
	what  string
	claim int
	pod   int
	after time.Duration
}

func (m move) String() string { return fmt.Sprintf("%s c%d p%d +%s", m.what, m.claim, m.pod, m.after) }

// history is a sequence of moves, and the faults of the watches during them.
type history struct {
	before []move // while the watches are well
	moves  []move
	faults []view.Fault
	gone   string // the claim that must not wait for the watches to be well again; empty for none
	soon   string // the claim that goes as soon as they are; empty for none
}

const protectedNamespace = "ns"

var histories = rapid.Custom(func(t *rapid.T) history {
	moves := rapid.Custom(func(t *rapid.T) move {
		return move{
			what: rapid.SampledFrom([]string{
				"create claim", "create claim", "delete claim", "delete claim", "bare claim", "create pod", "create pod", "create slow pod", "create ephemeral pod",
				"bind pod", "bind pod", "finish pod", "end pod", "replace pod", "collect",
			}).Draw(t, "what"),
			claim: rapid.IntRange(0, 1).Draw(t, "claim"), pod: rapid.IntRange(0, 2).Draw(t, "pod"),
			after: rapid.SampledFrom([]time.Duration{0, 100 * time.Microsecond, time.Millisecond, 3 * time.Millisecond, time.Second, 11 * time.Minute}).Draw(t, "after"),
		}
	})
	fault := func(kind client.Object) view.Fault {
		return view.Fault{Kind: kind, Lag: rapid.IntRange(0, 3).Draw(t, "lag"), Frozen: rapid.IntRange(0, 2).Draw(t, "frozen") == 0, Relist: rapid.Bool().Draw(t, "relist")}
	}
	return history{
		moves:  rapid.SliceOfN(moves, 1, 30).Draw(t, "moves"),
		faults: []view.Fault{fault(&corev1.Pod{}), fault(&corev1.PersistentVolumeClaim{})},
	}
})

func TestGuardsHold(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		h := histories.Draw(r, "history")
		if wrong := playProtection(t, h, nil); len(wrong) > 0 {
			r.Fatalf("%v\n%v", wrong, h)
		}
	})
}

// Histories of bugs in upstream. Each begins with p0 that names c0, p1 that names c1 and ends
// slowly, and p2 with an ephemeral volume, slow too; none of them has a node.
var learned = map[string]history{
	"75980 a pod got its node a moment ago": {
		faults: []view.Fault{{Kind: &corev1.Pod{}, Frozen: true}},
		moves:  []move{{what: "bind pod"}, {what: "delete claim", after: time.Second}},
	},
	"76703 a pod came and got its node a moment ago": {
		faults: []view.Fault{{Kind: &corev1.Pod{}, Lag: 2}},
		moves:  []move{{what: "delete claim", after: 0}, {what: "end pod"}, {what: "create pod"}, {what: "bind pod"}},
	},
	"80475 a pod went and another came in one update": {
		faults: []view.Fault{{Kind: &corev1.Pod{}, Frozen: true, Relist: true}},
		before: []move{{what: "bind pod"}, {what: "delete claim"}},
		moves:  []move{{what: "replace pod", claim: 1, after: time.Second}},
		soon:   "c0",
	},
	"113139 an ephemeral claim whose pod is shut down": {
		moves: []move{{what: "bind pod", pod: 2, after: time.Second}, {what: "end pod", pod: 2}, {what: "collect", after: time.Second}},
		gone:  "p2-data",
	},
	"120041 no event of the deleted pod": {
		faults: []view.Fault{{Kind: &corev1.Pod{}, Frozen: true}},
		before: []move{{what: "bind pod"}, {what: "delete claim"}},
		moves:  []move{{what: "end pod", after: 2 * rules.LookEvery}},
		gone:   "c0",
	},
}

var beginning = []move{
	{what: "create claim"},
	{what: "create claim", claim: 1},
	{what: "create pod"},
	{what: "create slow pod", claim: 1, pod: 1},
	{what: "create ephemeral pod", pod: 2},
}

func TestGuardsHaveLearned(t *testing.T) {
	for name, h := range learned {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			for _, wrong := range playProtection(t, h, nil) {
				t.Error(wrong)
			}
		})
	}
}

// 8.30, k/k#75980: a controller that reads only the informer cache is caught.
func TestProtectionThatReadsOnlyTheCacheIsCaught(t *testing.T) {
	byMemory := func(v *view.View) client.Reader { return v }
	if wrong := playProtection(t, learned["75980 a pod got its node a moment ago"], byMemory); len(wrong) == 0 {
		t.Error("nothing shows that the API server must be asked")
	}
}

// playProtection plays a history and returns the violations. live replaces the live reader; nil for
// the API server.
func playProtection(t *testing.T, h history, live func(*view.View) client.Reader) (wrong []string) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &protectionWorld{ctx: ctx, server: apiserver.New()}
		w.api = w.server.Client()
		v := view.New(w.server, h.faults...)
		w.start(v, live)
		for _, m := range slices.Concat(beginning, h.before) {
			w.play(m)
		}
		time.Sleep(time.Second)
		v.Break()
		for _, m := range h.moves {
			w.play(m)
			time.Sleep(m.after)
		}
		if w.has(h.gone) {
			wrong = append(wrong, "claim "+h.gone+" waits for the watch")
		}
		v.Heal()
		time.Sleep(time.Second)
		if w.has(h.soon) {
			wrong = append(wrong, "claim "+h.soon+" waits although nothing uses it")
		}
		time.Sleep(15 * time.Minute)
		w.collect()
		time.Sleep(5 * time.Minute)
		wrong = append(append(wrong, w.early()...), w.end()...)
		before := w.writes()
		time.Sleep(15 * time.Minute)
		if after := w.writes(); after != before {
			wrong = append(wrong, fmt.Sprintf("%d writes after the end", after-before))
		}
		cancel()
		synctest.Wait()
	})
	return wrong
}

// protectionWorld is the world of one history of the protection controllers.
type protectionWorld struct {
	ctx    context.Context
	server *apiserver.Server
	api    client.Client
}

func (w *protectionWorld) start(v *view.View, live func(*view.View) client.Reader) {
	reader := client.Reader(w.api)
	if live != nil {
		reader = live(v)
	}
	mgr := &fakeManager{view: v, client: w.api}
	own := kube.NewOverlay(v, clock.RealClock{})
	writer := own.Recording(w.api)
	claims := protection.NewClaims(protection.Config{
		Cached: own, Live: reader, Writer: writer, Settings: settings(2),
	})
	volumes := ephemeral.New(ephemeral.Config{
		Cached: own, Live: w.api, Writer: writer, Settings: settings(2),
	})
	for _, add := range []error{claims.AddTo(w.ctx, mgr), volumes.AddTo(w.ctx, mgr)} {
		if add != nil {
			panic(add)
		}
	}
	go func() { _ = v.Start(w.ctx) }()
	for _, r := range mgr.runnables {
		go func() { _ = r.Start(w.ctx) }()
	}
}

// play does one move. A move that is not possible now is none.
func (w *protectionWorld) play(m move) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: protectedNamespace, Name: fmt.Sprint("c", m.claim)}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: protectedNamespace, Name: fmt.Sprint("p", m.pod)}}
	switch m.what {
	case "create claim":
		_ = w.api.Create(w.ctx, claim)
	case "bare claim":
		if w.api.Get(w.ctx, client.ObjectKeyFromObject(claim), claim) == nil && claim.DeletionTimestamp == nil {
			claim.Finalizers = nil
			_ = w.api.Update(w.ctx, claim)
		}
	case "delete claim":
		_ = w.api.Delete(w.ctx, claim)
	case "create pod", "create slow pod", "create ephemeral pod":
		w.createPod(m, pod)
	case "bind pod":
		if w.api.Get(w.ctx, client.ObjectKeyFromObject(pod), pod) == nil {
			pod.Spec.NodeName = "n"
			_ = w.api.Update(w.ctx, pod)
		}
	case "finish pod":
		if w.api.Get(w.ctx, client.ObjectKeyFromObject(pod), pod) == nil {
			pod.Status.Phase = corev1.PodSucceeded
			_ = w.api.Status().Update(w.ctx, pod)
		}
	case "end pod":
		w.endPod(pod)
	case "replace pod":
		w.endPod(pod)
		w.createPod(m, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: protectedNamespace, Name: pod.Name}})
	case "collect":
		w.collect()
	}
}

func (w *protectionWorld) createPod(m move, pod *corev1.Pod) {
	pod.Spec.Volumes = []corev1.Volume{{Name: "data"}}
	if m.what == "create ephemeral pod" {
		pod.Spec.Volumes[0].Ephemeral = &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}
	} else {
		pod.Spec.Volumes[0].PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("c", m.claim)}
	}
	if m.what != "create pod" {
		pod.Finalizers = []string{"sim/slow"}
	}
	_ = w.api.Create(w.ctx, pod)
}

// endPod deletes the pod, or removes a terminating one.
func (w *protectionWorld) endPod(pod *corev1.Pod) {
	if w.api.Get(w.ctx, client.ObjectKeyFromObject(pod), pod) != nil {
		return
	}
	if pod.DeletionTimestamp == nil {
		_ = w.api.Delete(w.ctx, pod)
		return
	}
	pod.Finalizers = nil
	_ = w.api.Update(w.ctx, pod)
}

func (w *protectionWorld) has(claim string) bool {
	return w.api.Get(w.ctx, client.ObjectKey{Namespace: protectedNamespace, Name: claim}, &corev1.PersistentVolumeClaim{}) == nil
}

// collect is the garbage collector. A pod that is being deleted is deleted in the foreground: its
// claims go first.
func (w *protectionWorld) collect() {
	pods := map[types.UID]bool{}
	for _, p := range apiserver.Objects(w.server, &corev1.Pod{}) {
		pods[p.UID] = p.DeletionTimestamp == nil
	}
	for _, c := range apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}) {
		if owner := metav1.GetControllerOf(c); owner != nil && !pods[owner.UID] {
			_ = w.api.Delete(w.ctx, c)
		}
	}
}

func (w *protectionWorld) writes() int {
	return len(w.server.History(&corev1.PersistentVolumeClaim{}, 0))
}

// Claims that are deleted together cost one write each, and a few lists for all of them.
func TestProtectionRequestsAreBounded(t *testing.T) {
	const many = 1000
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &protectionWorld{ctx: ctx, server: apiserver.New()}
		counted := &counting{Client: w.server.Client()}
		w.api = counted
		w.start(view.New(w.server), nil)
		for i := range many {
			_ = w.api.Create(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: protectedNamespace, Name: strconv.Itoa(i)}})
		}
		time.Sleep(time.Second)
		counted.patches, counted.lists = 0, 0
		for _, claim := range apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}) {
			_ = w.server.Client().Delete(ctx, claim)
		}
		time.Sleep(time.Hour)
		if left := len(apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{})); left > 0 || counted.patches != many || counted.lists > many/20 {
			t.Errorf("%d claims are left after %d patches and %d lists", left, counted.patches, counted.lists)
		}
		t.Logf("%d claims: %d patches, %d lists", many, counted.patches, counted.lists)
		cancel()
		synctest.Wait()
	})
}

// counting counts requests, each of which takes a while.
type counting struct {
	client.Client
	mu             sync.Mutex
	patches, lists int
}

func (c *counting) count(what *int) {
	c.mu.Lock()
	*what++
	c.mu.Unlock()
	time.Sleep(time.Millisecond)
}

func (c *counting) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	c.count(&c.patches)
	return c.Client.Patch(ctx, o, p, opts...)
}

func (c *counting) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.count(&c.lists)
	return c.Client.List(ctx, list, opts...)
}
