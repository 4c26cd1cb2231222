package deploy

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
)

// 8.14: the policy refuses what the controllers cannot read, and nothing else.
func TestPolicyReadsReuseAsTheControllersDo(t *testing.T) {
	text, err := Policy.ReadFile("policy/annotations.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`matches\('(.*)'\)`).FindSubmatch(bytes.TrimSpace(text))
	if found == nil {
		t.Fatal("the policy has no pattern")
	}
	valid := regexp.MustCompile(string(found[1]))
	long := strings.Repeat("a", 63)
	for _, how := range []string{
		"", "any", "same-name", "bogus", "Any", "any ", "a/b", "a/b.c", "a/B", "a.b/c", "/b", "a/", "-a/b", "a/b-", "a/b..c",
		long + "/b", long + "a/b", "a/" + long + "." + long, "a/b/c", "yes", "same_name",
	} {
		pv := &corev1.PersistentVolume{}
		pv.Annotations = map[string]string{names.AnnReuse: how}
		_, err := objects.Reuse(pv)
		if got := valid.MatchString(how); got != (err == nil) {
			t.Errorf("%q: the policy accepts it: %t, the controllers: %v", how, got, err)
		}
	}
}
