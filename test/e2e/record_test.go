package e2e

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/life"
	"github.com/purser-csi/purser/internal/record"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/test/e2e/audit"
	"github.com/purser-csi/purser/test/e2e/scrape"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// burst is how many claims are created, used and deleted at once.
var burst = flag.Int("burst", 200, "claims that TestRecordOfBurst creates, uses and deletes at once")

// lookedAt is of how many lives one is looked at: each takes some milliseconds of a processor.
const lookedAt = 5

// leastAttributed is the part of the time from created to mounted, and from deleted to gone, that
// must have a named party or reason.
const leastAttributed = 0.95

// A burst of claims with pods is recorded: no version of an object is missing, no value of a secret
// is there, and the lives of all volumes have a party or a reason for their time.
func TestRecordOfBurst(t *testing.T) {
	t.Parallel()
	metrics, err := scrape.FreeAddress()
	must(t, err)
	s := start(t, stage.Config{
		DataDir: dataDir(t), Args: []string{"--attach-required", "--audit", "--http-endpoint", metrics},
	})
	b := newTestNamespace(t, s)
	const value = "correct-horse-battery-staple"
	must(t, s.Client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: "key", Annotations: map[string]string{"note": value}},
		StringData: map[string]string{"password": value},
	}))
	must(t, s.Client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: "call"}, StringData: map[string]string{"token": value},
	}))
	must(t, s.Client.Create(t.Context(), classWithSecret(b.name)))
	path := filepath.Join(t.TempDir(), "burst.jsonl.gz")
	recorder := recordInto(t, s, path, "--role-endpoint", "http://"+metrics)
	began, busy := time.Now(), busyTime(t)
	versions := watchVersions(t, b)
	begin, err := s.Audit().Mark(t.Context())
	must(t, err)
	for i := range *burst {
		class := ""
		if i == 0 { // its calls have a secret
			class = b.name
		}
		claim := b.newClaim(fmt.Sprint("c", i), class)
		must(t, b.Client.Create(t.Context(), claim))
		must(t, b.Client.Create(t.Context(), podOf(b.name, claim.Name)))
	}
	b.eventuallyNone(t, "not mounted", &corev1.PodList{}, func(o client.Object) bool {
		pod, ok := o.(*corev1.Pod)
		return ok && pod.Status.Phase != corev1.PodRunning
	})
	must(t, b.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(b.name)))
	must(t, b.Client.DeleteAllOf(t.Context(), &corev1.PersistentVolumeClaim{}, client.InNamespace(b.name)))
	b.eventuallyNone(t, "left", &corev1.PersistentVolumeList{}, func(o client.Object) bool {
		pv, ok := o.(*corev1.PersistentVolume)
		return ok && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.Namespace == b.name
	})
	seen := versions()
	end, err := s.Audit().Mark(t.Context())
	must(t, err)
	took, all := time.Since(began), busyTime(t)-busy
	used := recorder()
	t.Logf("the recorder used %s of processor time: %.2f %% of %d processors for %s, %.2f %% of what was used of them",
		used.Round(time.Millisecond), 100*used.Seconds()/took.Seconds()/float64(runtime.NumCPU()), runtime.NumCPU(),
		took.Round(time.Second), 100*used.Seconds()/all.Seconds())
	dump := dumpOf(t, s, "--role-endpoint", "http://"+metrics)
	text, err := os.ReadFile(path)
	must(t, err)
	lines, err := record.Lines(text)
	must(t, err)
	noSecret(t, s, map[string]string{
		"the dump": dump, "what the roles did": getText(t, "http://"+metrics+telemetry.PathSpans), "the record": linesOf(t, lines),
	}, value)
	if !strings.Contains(dump, `"kind": "Spans"`) || !strings.Contains(dump, `"name": "DeleteVolume"`) {
		t.Error("the dump does not have what the roles did")
	}
	nothingLost(t, lines, seen)
	asAudited(t, s, begin, end, lines)
	r, err := record.Load(map[string][]byte{path: text})
	must(t, err)
	for _, note := range r.Notes {
		if strings.Contains(note, ": line ") {
			t.Error(note)
		}
		t.Log(note) // a role that did not answer in time is read again
	}
	attributedTimes(t, r, b.name, *burst, lookedAt)
}

// busyTime returns for how long processors of the machine have worked, of all its programs.
func busyTime(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	must(t, err)
	const perSecond = 100 // USER_HZ
	ticks := 0
	for i, field := range strings.Fields(strings.SplitN(string(text), "\n", 2)[0]) {
		if n, err := strconv.Atoi(field); err == nil && i != 4 && i != 5 && i < 9 { // idle, iowait, guests
			ticks += n
		}
	}
	return time.Duration(ticks) * time.Second / perSecond
}

// recordInto runs the recorder, and returns a function that ends it and returns the processor time that it
// has used.
func recordInto(t *testing.T, s *stage.Stage, path string, args ...string) (stop func() time.Duration) {
	t.Helper()
	args = append([]string{"record", "--kubeconfig", s.Kubeconfig(), "-o", path}, args...)
	command := exec.Command(filepath.Join(s.Bin, "purser"), args...)
	var out strings.Builder
	command.Stdout, command.Stderr = &out, &out
	must(t, command.Start())
	t.Cleanup(func() { _ = command.Process.Kill() })
	eventually(t, func(context.Context) error { // the first list is written
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		lines, _ := record.Lines(text) // the file has no end yet
		if !slices.ContainsFunc(lines, func(l record.Line) bool { return l.Op == record.Listed }) {
			return fmt.Errorf("%d lines, and not all objects", len(lines))
		}
		return nil
	})
	return func() time.Duration {
		must(t, command.Process.Signal(syscall.SIGINT))
		if err := command.Wait(); err != nil {
			t.Errorf("record: %v: %s", err, out.String())
		}
		return command.ProcessState.UserTime() + command.ProcessState.SystemTime()
	}
}

// watchVersions watches the objects of volumes, and returns a function that ends the watches and
// returns the versions that they have seen.
func watchVersions(t *testing.T, b testNamespace) func() map[string]bool {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var channels []<-chan string
	for _, list := range []client.ObjectList{
		&corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeList{}, &corev1.PodList{},
		&storagev1.VolumeAttachmentList{},
	} {
		w, err := b.Client.Watch(ctx, list)
		must(t, err)
		channel := make(chan string, 100_000)
		channels = append(channels, channel)
		go func() {
			defer close(channel)
			for e := range w.ResultChan() {
				if o, ok := e.Object.(client.Object); ok && e.Type != watch.Bookmark {
					channel <- fmt.Sprintf("%T %s %s", o, o.GetName(), o.GetResourceVersion())
				}
			}
		}()
	}
	return func() map[string]bool {
		stop()
		all := map[string]bool{}
		for _, channel := range channels {
			for version := range channel {
				all[version] = true
			}
		}
		return all
	}
}

func podOf(namespace, claim string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p-" + claim},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "c", Image: "none", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}},
			}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}}},
		},
	}
}

// eventuallyNone waits until no object of a list holds.
func (b testNamespace) eventuallyNone(
	t *testing.T, what string, list client.ObjectList, holds func(client.Object) bool,
) {
	t.Helper()
	eventuallyWithin(t, 5*patience, func(ctx context.Context) error {
		if err := b.Client.List(ctx, list); err != nil {
			return err
		}
		n := 0
		switch list := list.(type) {
		case *corev1.PodList:
			for i := range list.Items {
				if list.Items[i].Namespace == b.name && holds(&list.Items[i]) {
					n++
				}
			}
		case *corev1.PersistentVolumeList:
			for i := range list.Items {
				if holds(&list.Items[i]) {
					n++
				}
			}
		}
		if n > 0 {
			return fmt.Errorf("%d are %s", n, what)
		}
		return nil
	})
}

// asAudited fails the test if the record has another number of created objects than the API server's audit
// log, or more changes than it has writes.
func asAudited(t *testing.T, s *stage.Stage, begin, end audit.Mark, lines []record.Line) {
	t.Helper()
	tally, err := s.Audit().Between(begin, end)
	must(t, err)
	added, changed := map[string]int{}, map[string]int{}
	for _, line := range lines {
		resource := strings.ToLower(line.Kind) + "s"
		switch line.Op { //nolint:exhaustive // others are no writes
		case record.Add:
			added[resource]++
		case record.Change, record.Delete:
			changed[resource]++
		}
	}
	for _, resource := range []string{"persistentvolumeclaims", "persistentvolumes", "pods", "volumeattachments"} {
		created, written := 0, 0
		for request, answers := range tally {
			of, _, _ := strings.Cut(request.Resource, "/")
			switch {
			case of != resource || !request.IsWrite():
			case request.Verb == "create" && request.Resource == resource:
				created += answers[http.StatusCreated]
			default:
				written += answers[http.StatusOK] + answers[http.StatusCreated]
			}
		}
		t.Logf("%s: %d created, %d recorded; %d other writes, %d changes recorded", resource, created, added[resource],
			written, changed[resource])
		if created != added[resource] || created < *burst {
			t.Errorf("%s: the audit log has %d created ones, the record %d", resource, created, added[resource])
		}
	}
}

// nothingLost fails the test if a watch saw a version that the record does not have.
func nothingLost(t *testing.T, lines []record.Line, seen map[string]bool) {
	t.Helper()
	has := map[string]bool{}
	for _, line := range lines {
		group := "v1"
		has[fmt.Sprintf("*%s.%s %s %s", group, line.Kind, line.Name, line.Version)] = true
	}
	lost := 0
	for version := range seen {
		if !has[version] {
			if lost++; lost < 5 {
				t.Errorf("the record lacks %s", version)
			}
		}
	}
	t.Logf("%d lines; of %d versions that watches saw, %d are missing", len(lines), len(seen), lost)
	if len(seen) < *burst*8 {
		t.Errorf("the watches saw %d versions only", len(seen))
	}
}

// attributedTimes fails the test if too much of the time of a phase has neither a party nor a
// reason.
func attributedTimes(t *testing.T, r *record.Record, namespace string, volumes, every int) {
	t.Helper()
	begin := time.Now()
	known, all := map[life.PhaseKind]time.Duration{}, map[life.PhaseKind]time.Duration{}
	reasons, lanes := map[string]time.Duration{}, map[life.Lane]time.Duration{}
	h := r.History()
	claims := h.Claims(namespace)
	for i, ref := range claims {
		if i%every != 0 {
			continue
		}
		for _, l := range h.Lives(ref) {
			for _, p := range l.Phases {
				for _, i := range p.Intervals {
					all[p.Kind] += i.Took()
					if i.IsAttributed() {
						known[p.Kind] += i.Took()
					}
					if strings.Contains(i.What, "no sign of life") { // the Lease of `up` says that all roles run
						t.Errorf("%s: %s: %s", ref, p.Name, i.What)
					}
					if p.Kind == life.Creation || p.Kind == life.Deletion {
						reasons[string(i.Reason)] += i.Took()
						lanes[i.Lane] += i.Took()
					}
				}
				if p.Open && p.Kind != life.Use {
					t.Errorf("%s: %s has no end", ref, p.Name)
				}
			}
		}
	}
	if len(claims) != volumes {
		t.Errorf("%d claims in the record", len(claims))
	}
	for _, kind := range []life.PhaseKind{life.Creation, life.Deletion} {
		part := float64(known[kind]) / float64(all[kind])
		t.Logf("%s: %.2f %% of %s attributed", kind, part*100, all[kind].Round(time.Millisecond))
		if part < leastAttributed || all[kind] == 0 {
			t.Errorf("%s: %.2f of the time is attributed, want %.2f", kind, part, leastAttributed)
		}
	}
	t.Logf("%d lives in %s; lanes %v; reasons %v", len(claims)/every, time.Since(begin).Round(time.Millisecond), lanes, reasons)
}
