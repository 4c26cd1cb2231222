package explain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/purser-csi/purser/internal/explain/inventory"
	rules "github.com/purser-csi/purser/internal/explain/rules"
	command "github.com/purser-csi/purser/internal/roles/explain"
	"github.com/purser-csi/purser/internal/verdict"
	"github.com/purser-csi/purser/test/explain/properties"
)

const now = "2026-01-31T12:00:00Z"

// situation is one document of situations/.
type situation struct {
	Name    string           `json:"name"`
	Thread  string           `json:"thread"`
	Explain string           `json:"explain"`
	State   rules.State      `json:"state"` // stuck without one
	Reason  verdict.Reason   `json:"reason"`
	Second  verdict.Reason   `json:"second"` // of the second finding; none for that there is not one
	Cause   string           `json:"cause"`
	Fix     string           `json:"fix"`      // part of a step
	Risk    string           `json:"risk"`     // part of a risk that is named
	Proof   string           `json:"evidence"` // OBJECT FIELD of one piece of evidence
	Actor   rules.Actor      `json:"actor"`
	Chain   []string         `json:"chain"`   // the objects from the first to the last that waits
	Refused verdict.Reason   `json:"refused"` // of the last wish about an object that is well, which the other fields are then about
	Users   []string         `json:"users"`   // the first of the objects that use it
	Derived bool             `json:"derived"` // names are parts of other names or of a message: with others the answer is another
	Objects []map[string]any `json:"objects"`
}

func readSituations(t testing.TB) (base []map[string]any, all []situation) {
	t.Helper()
	text, err := os.ReadFile("base.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &base); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("situations", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, document := range bytes.Split(text, []byte("\n---\n")) {
			var s situation
			if err := yaml.UnmarshalStrict(document, &s); err != nil {
				t.Fatalf("%s, document %d: %v", file, i+1, err)
			}
			all = append(all, s)
		}
	}
	return base, all
}

var groups = map[string]string{
	"PersistentVolumeClaim": "v1", "PersistentVolume": "v1", "Pod": "v1", "Node": "v1", "Event": "v1", "Namespace": "v1", "StorageClass": "storage.k8s.io/v1",
	"CSINode": "storage.k8s.io/v1", "CSIDriver": "storage.k8s.io/v1", "VolumeAttachment": "storage.k8s.io/v1", "CSIStorageCapacity": "storage.k8s.io/v1",
	"Lease": "coordination.k8s.io/v1", "VolumeAttributesClass": "storage.k8s.io/v1", "VolumeSnapshot": "snapshot.storage.k8s.io/v1",
	"VolumeSnapshotClass": "snapshot.storage.k8s.io/v1", "VolumeSnapshotContent": "snapshot.storage.k8s.io/v1", "ResourceQuota": "v1", "LimitRange": "v1",
	"Job": "batch/v1", "VolumeGroupSnapshot": "groupsnapshot.storage.k8s.io/v1", "VolumeGroupSnapshotContent": "groupsnapshot.storage.k8s.io/v1",
	"VolumeGroupSnapshotClass": "groupsnapshot.storage.k8s.io/v1", "Secret": "v1",
	"Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "ReplicaSet": "apps/v1",
}

var namespaced = map[string]bool{"PersistentVolumeClaim": true, "Pod": true, "Event": true, "VolumeSnapshot": true, "Job": true, "VolumeGroupSnapshot": true, "ResourceQuota": true, "LimitRange": true}

// complete fills in what most objects of a situation have in common.
func complete(o map[string]any) map[string]any {
	kind, _ := o["kind"].(string)
	if o["apiVersion"] == nil {
		o["apiVersion"] = groups[kind]
	}
	metadata, _ := o["metadata"].(map[string]any)
	if namespaced[kind] && metadata["namespace"] == nil {
		metadata["namespace"] = "shop"
	}
	if metadata["creationTimestamp"] == nil {
		metadata["creationTimestamp"] = "2026-01-31T11:00:00Z"
	}
	if kind != "PersistentVolumeClaim" {
		return o
	}
	spec, _ := o["spec"].(map[string]any)
	if spec == nil {
		spec = map[string]any{}
		o["spec"] = spec
	}
	if metadata["uid"] == nil {
		metadata["uid"] = "uid-" + fmt.Sprint(metadata["name"])
	}
	if spec["accessModes"] == nil {
		spec["accessModes"] = []any{"ReadWriteOnce"}
	}
	if spec["resources"] == nil {
		spec["resources"] = map[string]any{"requests": map[string]any{"storage": "1Gi"}}
	}
	if o["status"] == nil {
		o["status"] = map[string]any{"phase": "Pending"}
	}
	return o
}

// dump is the base with the objects of the situation in place of those of the same name.
func (s situation) dump(t testing.TB, base []map[string]any) string {
	t.Helper()
	name := func(o map[string]any) string {
		metadata, _ := o["metadata"].(map[string]any)
		return fmt.Sprint(o["kind"], "/", metadata["name"])
	}
	replaced := map[string]bool{}
	var items []map[string]any
	for _, o := range s.Objects {
		items = append(items, complete(o))
		replaced[name(o)] = true
	}
	for _, o := range base {
		if !replaced[name(o)] {
			items = append(items, o)
		}
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "dump.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// run calls a command as a user would and returns what it prints.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	for _, c := range command.New(command.Streams{In: strings.NewReader(""), Out: &out}) {
		if c.Name() == args[0] {
			c.SetArgs(args[1:])
			c.SilenceUsage, c.SilenceErrors = true, true
			err := c.ExecuteContext(t.Context())
			return out.String(), err
		}
	}
	t.Fatalf("there is no command %s", args[0])
	return "", nil
}

func TestSituations(t *testing.T) {
	base, all := readSituations(t)
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			out, _ := run(t, "explain", s.Explain, "-n", "shop", "--now", now, "-o", "json", "--from", s.dump(t, base))
			var answer command.Answer
			if err := json.Unmarshal([]byte(out), &answer); err != nil || len(answer.Reports) != 1 {
				t.Fatalf("%v: %s", err, out)
			}
			s.check(t, answer.Reports[0])
			if t.Failed() {
				text, _ := run(t, "explain", s.Explain, "-n", "shop", "--now", now, "--from", s.dump(t, base))
				t.Log(text)
			}
		})
	}
	withoutEvent, chains := 0, 0
	for _, s := range all {
		if len(s.Chain) > 1 {
			chains++
		}
		if s.State != rules.Well && !slices.ContainsFunc(s.Objects, func(o map[string]any) bool { return o["kind"] == "Event" }) {
			withoutEvent++
		}
	}
	t.Logf("%d situations, %d of them without an event, %d with a chain", len(all), withoutEvent, chains)
	if len(all) < 245 || withoutEvent < 180 || chains < 65 {
		t.Error("there were more")
	}
}

// checkUsers compares the first users of a class, a driver, a lease or a secret.
func (s situation) checkUsers(t *testing.T, report rules.Report) {
	t.Helper()
	var users []string
	for _, user := range report.Users {
		users = append(users, user.Object.Kind.Short()+"/"+user.Object.Name)
	}
	if len(users) < len(s.Users) || !slices.Equal(users[:len(s.Users)], s.Users) {
		t.Errorf("the users are %v, want %v", users, s.Users)
	}
}

func (s situation) check(t *testing.T, report rules.Report) {
	t.Helper()
	if s.Thread == "" {
		t.Error("the situation names no thread")
	}
	if s.State == rules.Well {
		if report.State != rules.Well || report.Next == "" {
			t.Errorf("state %s, next %q", report.State, report.Next)
		}
		if s.checkUsers(t, report); s.Refused == "" {
			return
		}
		if report.Refused == nil {
			t.Fatalf("no wish was refused, want %s", s.Refused)
		}
		report.State, report.Findings, s.Reason = rules.Stuck, []rules.Finding{*report.Refused}, s.Refused
	}
	if report.State != rules.Stuck || len(report.Findings) == 0 {
		t.Fatalf("state %s with %d findings, want stuck", report.State, len(report.Findings))
	}
	s.checkUsers(t, report)
	first := report.Findings[0]
	if first.Reason != s.Reason || !strings.HasPrefix(first.Cause.String(), s.Cause) {
		t.Errorf("reason %s, cause %s; want %s, %s", first.Reason, first.Cause, s.Reason, s.Cause)
	}
	second := verdict.Reason("none")
	if len(report.Findings) > 1 {
		second = report.Findings[1].Reason
	}
	if s.Second != "" && second != s.Second {
		t.Errorf("the second finding is %s, want %s", second, s.Second)
	}
	if s.Actor != "" && first.Actor != s.Actor {
		t.Errorf("actor %q, want %q", first.Actor, s.Actor)
	}
	var steps, risks, proof string
	for _, step := range first.Fix {
		steps, risks = steps+step.Text+" "+string(step.Command)+"\n", risks+step.Risk+"\n"
	}
	for _, e := range first.Evidence {
		proof += e.Object.Kind.Short() + "/" + e.Object.Name + " " + e.Field + "\n"
	}
	if !strings.Contains(steps, s.Fix) || !strings.Contains(risks, s.Risk) || !strings.Contains(proof, s.Proof) {
		t.Errorf("fix %q, risks %q, evidence %q; want %q, %q, %q", steps, risks, proof, s.Fix, s.Risk, s.Proof)
	}
	if first.Actor != rules.Itself && len(first.Fix) == 0 {
		t.Error("a person has to act, and the answer does not say how")
	}
	var chain []string
	for _, link := range first.Chain {
		chain = append(chain, link.Object.Kind.Short()+"/"+link.Object.Name)
	}
	if s.Chain != nil && !slices.Equal(chain, s.Chain) {
		t.Errorf("the chain is %v, want %v", chain, s.Chain)
	}
	if !verdict.IsDocumented(first.Reason) {
		t.Errorf("%s has no section in docs/reasons.md", first.Reason)
	}
}

// What holds of every answer holds of those about each object of each situation.
func TestProperties(t *testing.T) {
	base, all := readSituations(t)
	for _, s := range all {
		for _, problem := range properties.Of(s.cluster(t, base)) {
			t.Errorf("%s: %s", s.Name, problem)
		}
	}
}

// cluster returns the objects of the situation as explain reads them.
func (s situation) cluster(t testing.TB, base []map[string]any) *rules.Cluster {
	t.Helper()
	at, err := time.Parse(time.RFC3339, now)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(s.dump(t, base))
	if err != nil {
		t.Fatal(err)
	}
	builder := inventory.NewBuilder(at)
	if _, err := builder.Parse("dump", text); err != nil {
		t.Fatal(err)
	}
	builder.SetNow(at)
	return builder.Cluster()
}

// The answer about everything: a table with a line for each cause, and exit code 1 only if something is
// wrong. Where claims or pods were not read it does not say that nothing is stuck.
func TestEverything(t *testing.T) {
	base, all := readSituations(t)
	named := func(name string) situation {
		return all[slices.IndexFunc(all, func(s situation) bool { return s.Name == name })]
	}
	without := func(kind string) []map[string]any {
		return slices.DeleteFunc(slices.Clone(base), func(o map[string]any) bool { return o["kind"] == kind })
	}
	broken := map[string]any{"kind": "Pod", "metadata": map[string]any{"name": "odd"}, "spec": "nothing"}
	pod := map[string]any{"kind": "Pod", "metadata": map[string]any{"name": "one"}, "status": map[string]any{"phase": "Running"}}
	for name, tc := range map[string]struct {
		s    situation
		base []map[string]any
		code int
		want []string
	}{
		"stuck":          {named("the source snapshot is not ready"), base, 1, []string{"OBJECT", "stuck, for", "administrator  SnapshotClassMissing: Volume"}},
		"waits normally": {named("waits for the first pod"), append(base, pod), 0, []string{"Nothing is stuck", "waits as they should", "WaitForFirstConsumer"}},
		"refused wish": {
			named("the template of a StatefulSet is larger than its claims"), append(base, pod), 0,
			[]string{"Nothing is stuck", "1 object is well, with a change that was refused", "user  ClaimTemplateDiffers: claims of"},
		},
		"no claims":   {situation{}, without("PersistentVolumeClaim"), 2, []string{"Cannot tell", "PersistentVolumeClaims were not read"}},
		"undecodable": {situation{Objects: []map[string]any{broken}}, base, 2, []string{"Cannot tell", `not "odd", which cannot be decoded`}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := run(t, "explain", "--now", now, "--from", tc.s.dump(t, tc.base))
			code := 0
			if answer, is := errors.AsType[command.ExitError](err); is {
				code = answer.Code
			}
			for _, part := range tc.want {
				if !strings.Contains(out, part) {
					t.Errorf("%q is not in the answer", part)
				}
			}
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// A wish that was refused about an object that is well is in the answer about everything, once, and not among
// what is stuck.
func TestRefusedWishesAreListedApart(t *testing.T) {
	base, all := readSituations(t)
	listed := 0
	for _, s := range all {
		if s.Refused == "" {
			continue
		}
		out, _ := run(t, "explain", "-n", "shop", "--now", now, "-o", "json", "--from", s.dump(t, base))
		var answer command.Answer
		if err := json.Unmarshal([]byte(out), &answer); err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, f := range answer.Refused {
			if f.Reason == s.Refused && strings.HasPrefix(f.Cause.String(), s.Cause) {
				found++
			}
			if slices.ContainsFunc(answer.Reports, func(r rules.Report) bool { return r.Object == f.Object }) {
				t.Errorf("%s: %s is stuck as well", s.Name, f.Object)
			}
		}
		if listed++; found != 1 {
			t.Errorf("%s: %s is given %d times in %v", s.Name, s.Refused, found, answer.Refused)
		}
	}
	if listed < 10 {
		t.Errorf("%d wishes were refused", listed)
	}
}

// A secret is not said to be absent where the dump has none: the answer says what is not known.
func TestUnreadLeavesTheDecisionOpen(t *testing.T) {
	base, all := readSituations(t)
	s := all[slices.IndexFunc(all, func(s situation) bool { return s.Reason == verdict.SecretMissing })]
	base = slices.DeleteFunc(base, func(o map[string]any) bool { return o["kind"] == "Secret" })
	out, _ := run(t, "explain", s.Explain, "-n", "shop", "--now", now, "-o", "json", "--from", s.dump(t, base))
	var answer command.Answer
	if err := json.Unmarshal([]byte(out), &answer); err != nil || len(answer.Reports) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	if strings.Contains(out, string(verdict.SecretMissing)) || !strings.Contains(out, "not known: Secrets were not read") {
		t.Error(out)
	}
}

// No command that the answer offers removes a finalizer or forces a deletion without saying what
// that risks.
func TestFixesNameTheirRisks(t *testing.T) {
	base, all := readSituations(t)
	for _, s := range all {
		out, _ := run(t, "explain", s.Explain, "-n", "shop", "--now", now, "-o", "json", "--from", s.dump(t, base))
		var answer command.Answer
		if err := json.Unmarshal([]byte(out), &answer); err != nil {
			t.Fatal(err)
		}
		for _, report := range answer.Reports {
			if report.Refused != nil {
				report.Findings = append(report.Findings, *report.Refused)
			}
			for _, f := range report.Findings {
				for _, step := range f.Fix {
					line := string(step.Command)
					destroys := strings.Contains(line, "kubectl delete") || strings.Contains(line, " delete p") ||
						strings.Contains(line, `"Delete"`) || strings.Contains(line, "--force") || strings.Contains(line, "finalizers\":")
					if destroys && step.Risk == "" {
						t.Errorf("%s: %q names no risk", s.Name, step.Command)
					}
				}
			}
		}
	}
}

// The tree of each situation fits 80 columns, and its answer as text wraps there, but for commands,
// which can be pasted, and single words that are longer.
func TestWidth(t *testing.T) {
	base, all := readSituations(t)
	for _, s := range all {
		from := s.dump(t, base)
		tree, err := run(t, "tree", s.Explain, "-n", "shop", "--now", now, "--from", from)
		if err != nil || tree == "" {
			t.Errorf("tree of %s: %v", s.Name, err)
		}
		text, _ := run(t, "explain", s.Explain, "-n", "shop", "--now", now, "--from", from)
		for line := range strings.Lines(tree) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 {
				t.Errorf("tree of %s: more than 80 columns: %s", s.Name, line)
			}
		}
		for line := range strings.Lines(text) {
			isCommand := strings.HasPrefix(line, "                ") && !strings.HasPrefix(line, "                 ")
			words := strings.Fields(line)
			isLong := slices.ContainsFunc(words, func(word string) bool { return len(word) > 60 })
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 && !isCommand && !isLong {
				t.Errorf("answer of %s: more than 80 columns: %s", s.Name, line)
			}
		}
	}
}

// Names that are replaced leave the answer as it is: the same reason, for the same kinds of objects.
func TestHiddenNamesKeepTheAnswer(t *testing.T) {
	base, all := readSituations(t)
	for _, s := range all {
		text, err := os.ReadFile(s.dump(t, base))
		if err != nil {
			t.Fatal(err)
		}
		var list struct {
			Items []map[string]any `json:"items"`
		}
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		hidden := situation{Objects: inventory.HideNames(list.Items)}
		plain, _ := run(t, "explain", "--now", now, "-o", "json", "--from", s.dump(t, base))
		replaced, _ := run(t, "explain", "--now", now, "-o", "json", "--from", hidden.dump(t, nil))
		tree, _ := run(t, "tree", "--now", now, "--from", hidden.dump(t, nil))
		for _, name := range []string{"pv-good", "node-a", "shop", "h-good"} {
			if strings.Contains(replaced+tree, name) {
				t.Errorf("%s: %q is left in the output", s.Name, name)
			}
		}
		if a, b := reasons(t, plain), reasons(t, replaced); !slices.Equal(a, b) {
			t.Errorf("%s: the reasons are %v, and with other names %v", s.Name, a, b)
		}
	}
}

// reasons are those of all that is stuck, sorted.
func reasons(t *testing.T, out string) (all []string) {
	t.Helper()
	var answer command.Answer
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatal(err)
	}
	for _, report := range answer.Reports {
		for _, f := range report.Findings {
			all = append(all, string(report.Object.Kind)+" "+string(f.Reason))
		}
	}
	slices.Sort(all)
	return all
}

// A cluster of 5,000 claims of which 50 are stuck is explained within seconds, and the stuck ones
// are one group.
func TestWholeClusterIsQuick(t *testing.T) {
	var items []map[string]any
	for i := range 5000 {
		name := fmt.Sprintf("c-%d", i)
		claim := map[string]any{"kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": name}}
		if i%100 == 0 {
			claim["spec"] = map[string]any{"storageClassName": "missing"}
			items = append(items, complete(claim))
			continue
		}
		claim["spec"] = map[string]any{"storageClassName": "now", "volumeName": "pv-" + name}
		claim["status"] = map[string]any{"phase": "Bound", "capacity": map[string]any{"storage": "1Gi"}}
		items = append(items, complete(claim), complete(map[string]any{
			"kind": "PersistentVolume", "metadata": map[string]any{"name": "pv-" + name},
			"spec":   map[string]any{"claimRef": map[string]any{"namespace": "shop", "name": name, "uid": "uid-" + name}},
			"status": map[string]any{"phase": "Bound"},
		}))
	}
	base, _ := readSituations(t)
	path := situation{Objects: items}.dump(t, base)
	began := time.Now()
	out, err := run(t, "explain", "--now", now, "-o", "json", "--from", path)
	var answer command.Answer
	if jsonErr := json.Unmarshal([]byte(out), &answer); jsonErr != nil {
		t.Fatal(jsonErr)
	}
	if err == nil || len(answer.Groups) != 1 || len(answer.Groups[0].Objects) != 50 {
		t.Errorf("%v; %d groups, %d reports", err, len(answer.Groups), len(answer.Reports))
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	t.Logf("5000 claims in %s, %d MB from the system", time.Since(began), memory.Sys>>20)
}

// A tree shows the problem of a volume at its claim and at its volume.
func TestTreeOfAnUnhealthyVolume(t *testing.T) {
	base, all := readSituations(t)
	i := slices.IndexFunc(all, func(s situation) bool { return strings.Contains(s.Name, "that the volume of a claim cannot be used") })
	if i < 0 {
		t.Fatal("the situation is not there")
	}
	tree, err := run(t, "tree", "pvc/good", "-n", "shop", "--now", now, "-o", "json", "--from", all[i].dump(t, base))
	if err != nil || strings.Count(tree, "to be repaired: the driver reports Inaccessible (ImageMissing)") < 2 {
		t.Errorf("%v: %s", err, tree)
	}
}
