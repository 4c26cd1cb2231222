package explain

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/explain/inventory"
	rules "github.com/purser-csi/purser/internal/explain/rules"
	command "github.com/purser-csi/purser/internal/roles/explain"
)

// mayRead are the resources that the Role of a namespace's user has.
var mayRead = map[string]string{"PersistentVolumeClaim": "persistentvolumeclaims", "Pod": "pods", "Event": "events"}

// limited is the dump of a situation that a user with a Role on claims, pods and events of the namespace
// shop can make.
func (s situation) limited(t *testing.T, base []map[string]any) string {
	t.Helper()
	annotations := map[string]any{inventory.AnnDumpTime: now}
	for _, rule := range inventory.Rules() {
		annotations[inventory.AnnUnread+rule.Resource] = "the permission to list " + rule.Resource + " is missing"
	}
	for _, resource := range mayRead {
		annotations[inventory.AnnUnread+resource] = rules.OnlyIn + "shop may be read"
	}
	text, err := os.ReadFile(s.dump(t, base))
	if err != nil {
		t.Fatal(err)
	}
	var list map[string]any
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	items, _ := list["items"].([]any)
	var readable []any
	for _, item := range items {
		o, _ := item.(map[string]any)
		metadata, _ := o["metadata"].(map[string]any)
		kind, _ := o["kind"].(string)
		if mayRead[kind] != "" && metadata["namespace"] == "shop" {
			readable = append(readable, o)
		}
	}
	list["items"], list["metadata"] = readable, map[string]any{"annotations": annotations}
	if text, err = json.Marshal(list); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "limited.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A user who may read claims, pods and events of one namespace gets the best answer that these allow: of
// what is stuck it is never said that it is well, nor that nothing is stuck.
func TestUserOfANamespace(t *testing.T) {
	base, all := readSituations(t)
	asked, same := 0, 0
	for _, s := range all {
		path := s.limited(t, base)
		if answer := answerAbout(t, s.dump(t, base)); isStuckIn(answer, "shop") {
			text, _ := run(t, "explain", "-n", "shop", "--now", now, "--from", path)
			if strings.Contains(text, "Nothing is stuck") {
				t.Errorf("%s: %s is stuck, and the user reads: %s", s.Name, answer.Reports[0].Object, text)
			}
		}
		kind, _, _ := strings.Cut(s.Explain, "/")
		if s.State == rules.Well || kind != "pod" && kind != "pvc" {
			continue
		}
		asked++
		answer := answerAbout(t, path, s.Explain)
		if len(answer.Reports) != 1 || answer.Reports[0].State == rules.Well {
			t.Errorf("%s: %s is stuck, and the user reads: %+v", s.Name, s.Explain, answer.Reports)
			continue
		}
		if found := answer.Reports[0].Findings; len(found) > 0 && found[0].Reason == s.Reason {
			same++
		}
	}
	t.Logf("of %d claims and pods, %d have the reason that the whole cluster gives", asked, same)
	if asked < 100 || same < 40 {
		t.Error("there were more")
	}
}

func answerAbout(t *testing.T, from string, args ...string) (answer command.Answer) {
	t.Helper()
	out, _ := run(t, append([]string{"explain", "-n", "shop", "--now", now, "-o", "json", "--from", from}, args...)...)
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// isStuckIn reports whether a claim or pod of the namespace is stuck, other than one that waits as it should.
func isStuckIn(answer command.Answer, namespace string) bool {
	for _, group := range answer.Groups {
		for _, of := range group.Objects {
			if !group.Normal && of.Namespace == namespace && (of.Kind == rules.Pod || of.Kind == rules.Claim) {
				return true
			}
		}
	}
	return false
}
