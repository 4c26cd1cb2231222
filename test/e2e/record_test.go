package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	"github.com/purser-csi/purser/test/e2e/scrape"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// burst is how many claims are created, used and deleted at once.
const burst = 200

// lookedAt is of how many lives one is looked at: each takes 0.2 s of a processor.
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
		DataDir: dataDir(t), Args: []string{"--attach-required", "--http-endpoint", metrics},
	})
	b := newTestNamespace(t, s)
	const value = "correct-horse-battery-staple"
	must(t, s.Client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: "key", Annotations: map[string]string{"note": value}},
		StringData: map[string]string{"password": value},
	}))
	path := filepath.Join(t.TempDir(), "burst.jsonl.gz")
	recorder := recordInto(t, s, path, "--role-endpoint", "http://"+metrics)
	versions := watchVersions(t, b)
	for i := range burst {
		claim := b.newClaim(fmt.Sprint("c", i), "")
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
	recorder()
	text, err := os.ReadFile(path)
	must(t, err)
	lines, err := record.Lines(text)
	must(t, err)
	noSecret(t, lines, value)
	nothingLost(t, lines, seen)
	r, err := record.Load(map[string][]byte{path: text})
	must(t, err)
	for _, note := range r.Notes {
		if strings.Contains(note, ": line ") {
			t.Error(note)
		}
		t.Log(note) // a role that did not answer in time is read again
	}
	attributedTimes(t, r, b.name)
}

// recordInto runs the recorder, and returns a function that ends it.
func recordInto(t *testing.T, s *stage.Stage, path string, args ...string) (stop func()) {
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
	return func() {
		must(t, command.Process.Signal(syscall.SIGINT))
		if err := command.Wait(); err != nil {
			t.Errorf("record: %v: %s", err, out.String())
		}
		used := command.ProcessState.UserTime() + command.ProcessState.SystemTime()
		t.Logf("the recorder used %s of processor time", used.Round(time.Millisecond))
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

func noSecret(t *testing.T, lines []record.Line, value string) {
	t.Helper()
	for _, line := range lines {
		text, err := json.Marshal(line)
		must(t, err)
		if strings.Contains(string(text), value) {
			t.Errorf("the value of a secret is in the record: %s", text)
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
	if len(seen) < burst*8 {
		t.Errorf("the watches saw %d versions only", len(seen))
	}
}

// attributedTimes fails the test if too much of the time of a phase has neither a party nor a
// reason.
func attributedTimes(t *testing.T, r *record.Record, namespace string) {
	t.Helper()
	begin := time.Now()
	known, all := map[life.PhaseKind]time.Duration{}, map[life.PhaseKind]time.Duration{}
	reasons, lanes := map[string]time.Duration{}, map[life.Lane]time.Duration{}
	h := r.History()
	claims := h.Claims(namespace)
	for i, ref := range claims {
		if i%lookedAt != 0 {
			continue
		}
		for _, l := range h.Lives(ref) {
			for _, p := range l.Phases {
				for _, i := range p.Intervals {
					all[p.Kind] += i.Took()
					if i.IsAttributed() {
						known[p.Kind] += i.Took()
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
	if len(claims) != burst {
		t.Errorf("%d claims in the record", len(claims))
	}
	for _, kind := range []life.PhaseKind{life.Creation, life.Deletion} {
		part := float64(known[kind]) / float64(all[kind])
		t.Logf("%s: %.2f %% of %s attributed", kind, part*100, all[kind].Round(time.Millisecond))
		if part < leastAttributed || all[kind] == 0 {
			t.Errorf("%s: %.2f of the time is attributed, want %.2f", kind, part, leastAttributed)
		}
	}
	t.Logf("%d lives in %s; lanes %v; reasons %v", len(claims)/lookedAt, time.Since(begin).Round(time.Millisecond), lanes, reasons)
}
