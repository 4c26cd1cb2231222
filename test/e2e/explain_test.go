package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/e2e/life"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// stuckThing creates a stuck object in the cluster.
type stuckThing struct {
	name   string
	reason string                                           // of the first finding
	make   func(t *testing.T, b testNamespace) (ref string) // returns KIND/NAME
}

// explain gives the same answer from the live API server and from its dump, for each stuck object
// and for all of them together. The live form lists each kind once.
func TestExplainLiveAndDump(t *testing.T) {
	t.Parallel()
	s := start(t, stage.Config{DataDir: dataDir(t), Args: []string{"--audit"}})
	b := newTestNamespace(t, s)
	refs := map[string]string{}
	for _, thing := range slices.Concat(stuckThings(), refusedThings()) {
		refs[thing.make(t, b)] = thing.reason
	}
	if len(refs) < 18 {
		t.Errorf("%d things are stuck", len(refs))
	}
	file := filepath.Join(t.TempDir(), "dump.json")
	for ref, reason := range refs {
		t.Run(strings.ReplaceAll(ref, "/", "-"), func(t *testing.T) {
			eventually(t, func(ctx context.Context) error { return b.sameAnswer(ctx, file, reason, ref) })
		})
	}
	eventually(t, func(ctx context.Context) error { return b.sameAnswer(ctx, file, "", "") })
	for _, ref := range []string{"pvc/no-class", "pvc/unused", "pvc/modified", "volumesnapshot/of-nothing"} {
		eventually(t, func(ctx context.Context) error { return b.hasMessageOfItsEvent(ctx, ref) })
	}
	b.listsOnce(t)
	b.isPlugin(t, slices.Collect(keysOf(refs))[0])
}

// The end of the demo: the answer about its stuck claim fits a terminal, and has all four parts.
func TestExplainDemo(t *testing.T) {
	t.Parallel()
	text, err := (&life.Stuck{Stage: shared(t), Examples: examples(t)}).Explain(t.Context())
	must(t, err)
	for _, part := range []string{"pvc/treasure -n default  stuck", "It waits for", "Why", "golden", "What to do", "Who", "ClassMissing"} {
		if !strings.Contains(text, part) {
			t.Errorf("the answer lacks %q:\n%s", part, text)
		}
	}
	for line := range strings.Lines(text) {
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("more than 80 columns: %s", line)
		}
	}
}

func keysOf(refs map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for ref := range refs {
			if !yield(ref) {
				return
			}
		}
	}
}

// stuckThings are objects with different causes; those that need loop images are only created as
// root.
func stuckThings() []stuckThing {
	return []stuckThing{
		{"a class that does not exist", "ClassMissing", func(t *testing.T, b testNamespace) string {
			return "pvc/" + b.claim(t, "no-class", "nope").Name
		}},
		{"a claim that no pod uses", "WaitForFirstConsumer", func(t *testing.T, b testNamespace) string {
			b.classOf(t, "later", func(c *storagev1.StorageClass) { *c.VolumeBindingMode = storagev1.VolumeBindingWaitForFirstConsumer })
			return "pvc/" + b.claim(t, "unused", b.name+"-later").Name
		}},
		{"a parameter that the driver refuses", "CreateInfeasible", func(t *testing.T, b testNamespace) string {
			b.classOf(t, "red", func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"colour": "red"} })
			return "pvc/" + b.claim(t, "wrong", b.name+"-red").Name
		}},
		{"a static volume that is too small", "ClassMissing", func(t *testing.T, b testNamespace) string {
			must(t, b.Client.Create(t.Context(), &corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: b.name + "-small"},
				Spec: corev1.PersistentVolumeSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: "by-hand",
					Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")},
					PersistentVolumeSource: corev1.PersistentVolumeSource{
						CSI: &corev1.CSIPersistentVolumeSource{Driver: builtIn, VolumeHandle: "by-hand"},
					},
				},
			}))
			return "pvc/" + b.claim(t, "too-large", "by-hand").Name
		}},
		{"a provisioner that is not installed", "", func(t *testing.T, b testNamespace) string {
			b.classOf(t, "foreign", func(c *storagev1.StorageClass) { c.Provisioner = "other.example.com" })
			return "pvc/" + b.claim(t, "foreign", b.name+"-foreign").Name
		}},
		{"a pod of a claim that does not exist", "PodClaimMissing", func(t *testing.T, b testNamespace) string {
			return "pod/" + b.podOf(t, "no-claim", "absent").Name
		}},
		{"a deleted claim that a pod uses", "ClaimStillUsed", func(t *testing.T, b testNamespace) string {
			claim := b.claim(t, "held", "")
			b.awaitBound(t, claim)
			b.usingPod(t, claim, "holder")
			b.delete(t, claim)
			return "pvc/held"
		}},
		{"an attributes class that does not exist", "ModifyClassMissing", func(t *testing.T, b testNamespace) string {
			claim := b.claim(t, "modified", "")
			b.awaitBound(t, claim)
			before := claim.DeepCopy()
			claim.Spec.VolumeAttributesClassName = new("nope")
			must(t, b.Client.Patch(t.Context(), claim, client.MergeFrom(before)))
			return "pvc/modified"
		}},
		{"a clone of a claim that does not exist", "SourceMissing", func(t *testing.T, b testNamespace) string {
			claim := b.newClaim("clone", "")
			claim.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "absent"}
			must(t, b.Client.Create(t.Context(), claim))
			return "pvc/clone"
		}},
		{"a released volume that is kept", "VolumeKept", func(t *testing.T, b testNamespace) string {
			b.classOf(t, "kept", func(c *storagev1.StorageClass) { *c.ReclaimPolicy = corev1.PersistentVolumeReclaimRetain })
			claim := b.claim(t, "gone", b.name+"-kept")
			pv := b.awaitBound(t, claim)
			b.delete(t, claim)
			b.awaitGone(t, claim)
			return "pv/" + pv.Name
		}},
		{"a namespace with a foreign finalizer in it", "NamespaceTerminating", func(t *testing.T, b testNamespace) string {
			other := newTestNamespace(t, b.Stage)
			claim := other.newClaim("left", "")
			claim.Finalizers = []string{"example.com/keep"}
			must(t, b.Client.Create(t.Context(), claim))
			must(t, b.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other.name}}))
			return "namespace/" + other.name
		}},
		{"a snapshot of a claim that does not exist", "SnapshotSourceMissing", func(t *testing.T, b testNamespace) string {
			vs := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: "of-nothing"}}
			vs.Spec.Source.PersistentVolumeClaimName = new("absent")
			must(t, b.Client.Create(t.Context(), vs))
			return "volumesnapshot/of-nothing"
		}},
	}
}

// classOf creates another StorageClass of the test.
func (b testNamespace) classOf(t *testing.T, suffix string, change func(*storagev1.StorageClass)) {
	t.Helper()
	b.class(t, func(c *storagev1.StorageClass) {
		c.Name += "-" + suffix
		change(c)
	})
}

// purser runs a command as the administrator, and returns its output and exit code.
func (b testNamespace) purser(ctx context.Context, args ...string) (out string, code int, err error) {
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, filepath.Join(b.Bin, "purser"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+b.Kubeconfig())
	command.Stdout, command.Stderr = &stdout, &stderr
	if err = command.Run(); command.ProcessState == nil || stderr.Len() > 0 {
		return "", 0, fmt.Errorf("purser %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), command.ProcessState.ExitCode(), nil
}

// ages matches ages, which differ between two runs.
var ages = regexp.MustCompile(`\b(\d+[dhms])+\b`)

// sameAnswer returns an error if the two forms of the answer differ. Without an object it compares
// the answers about all stuck objects.
func (b testNamespace) sameAnswer(ctx context.Context, file, reason, ref string) error {
	dump, _, err := b.purser(ctx, "dump")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(dump), 0o600); err != nil {
		return err
	}
	args := []string{"explain", "-o", "json"}
	if ref != "" {
		args = append(args, ref, "-n", b.name)
	}
	live, liveCode, err := b.purser(ctx, args...)
	if err != nil {
		return err
	}
	fromDump, dumpCode, err := b.purser(ctx, append(args, "--from", file)...)
	if err != nil {
		return err
	}
	live, fromDump = withoutTime(live), withoutTime(fromDump)
	switch {
	case live != fromDump || liveCode != dumpCode:
		return fmt.Errorf("%s: exit codes %d and %d; live\n%s\nfrom its dump\n%s", ref, liveCode, dumpCode, live, fromDump)
	case liveCode != 1:
		return fmt.Errorf("%s: exit code %d, want that of a stuck object: %s", ref, liveCode, live)
	case reason != "" && !strings.Contains(live, `"reason": "`+reason+`"`):
		return fmt.Errorf("%s: want the reason %s: %s", ref, reason, live)
	}
	return nil
}

// withoutTime removes the time of the answer and replaces ages.
func withoutTime(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, `  "time":`) {
			lines = append(lines, ages.ReplaceAllString(line, "AGE"))
		}
	}
	return strings.Join(lines, "")
}

// hasMessageOfItsEvent compares the message of a finding with the event of the controller that
// decided it.
func (b testNamespace) hasMessageOfItsEvent(ctx context.Context, ref string) error {
	out, _, err := b.purser(ctx, "explain", ref, "-n", b.name, "-o", "json")
	if err != nil {
		return err
	}
	var answer struct {
		Reports []struct{ Findings []struct{ Words string } }
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil || len(answer.Reports) != 1 || len(answer.Reports[0].Findings) == 0 {
		return fmt.Errorf("%s: %w: %s", ref, err, out)
	}
	words := answer.Reports[0].Findings[0].Words
	var events corev1.EventList
	if err := b.Client.List(ctx, &events, client.InNamespace(b.name)); err != nil {
		return err
	}
	_, name, _ := strings.Cut(ref, "/")
	var told []string
	for _, e := range events.Items {
		if e.InvolvedObject.Name == name {
			told = append(told, e.Message)
		}
	}
	if words == "" || !slices.Contains(told, words) {
		return fmt.Errorf("%s: explain says %q, the events say %q", ref, words, told)
	}
	return nil
}

// listsOnce fails the test unless one live answer about all objects lists each kind once.
func (b testNamespace) listsOnce(t *testing.T) {
	t.Helper()
	log := b.Audit()
	from, err := log.Mark(t.Context())
	must(t, err)
	_, _, err = b.purser(t.Context(), "explain")
	must(t, err)
	to, err := log.Mark(t.Context())
	must(t, err)
	tally, err := log.Between(from, to)
	must(t, err)
	kinds := 0
	for request, answers := range tally {
		if request.Verb != "list" || strings.HasPrefix(request.User, "system:") {
			continue
		}
		kinds++
		if answers.All() != 1 {
			t.Errorf("%s are listed %d times", request.Resource, answers.All())
		}
	}
	t.Logf("%d kinds are listed once each", kinds)
	if kinds != 28 {
		t.Errorf("%d kinds are listed, want 28", kinds)
	}
}

// isPlugin runs the same command through kubectl.
func (b testNamespace) isPlugin(t *testing.T, ref string) {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Symlink(filepath.Join(b.Bin, "purser"), filepath.Join(dir, "kubectl-purser")))
	command := exec.CommandContext(t.Context(), filepath.Join(b.Bin, "kubectl"), "purser", "explain", ref, "-n", b.name, "-o", "json")
	command.Env = append(os.Environ(), "KUBECONFIG="+b.Kubeconfig(), "PATH="+dir)
	out, err := command.Output()
	var answer struct{ Reports []any }
	if code := command.ProcessState.ExitCode(); code != 1 || json.Unmarshal(out, &answer) != nil || len(answer.Reports) != 1 {
		t.Errorf("kubectl purser explain %s: exit code %d, %v, %s", ref, code, err, out)
	}
}
