package ui

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

var (
	outside = regexp.MustCompile(`(?:src|href|action)="(?:https?:)?//`)
	inline  = regexp.MustCompile(`<script[^>]*>[^<]|<style|\sstyle="|\son[a-z]+="|javascript:`)
)

// Each page is served, names what it is about, and neither loads nor runs anything that is not the
// program's own.
func TestPages(t *testing.T) {
	h := NewServer(stateOf(t, objectsText)).Handler()
	for path, wanted := range map[string][]string{
		"/": {"<strong>1 object is stuck</strong>", "ClassMissing", "The administrator has to act"}, "/board": {"ClassMissing"},
		"/board?class=nope": {"ClassMissing", "Show all"},
		"/board?cause=cause-classmissing-storageclass_2fnope": {"ClassMissing", " open>", "Show all"},
		"/board?cause=cause-other":                            {"Nothing is stuck"},
		"/board?class=other":                                  {"Nothing is stuck", "among the chosen objects"},
		"/board?namespace=shop":                               {"ClassMissing"},
		"/life?kind=pvc&namespace=shop&name=stuck":            {"stuck", "What to do", "kubectl", "Copy"},
		"/life?kind=pvc&namespace=shop&name=data":             {"handle-77", "created to mounted", "d.example.com", "<svg"},
		"/life?kind=pod&namespace=shop&name=web":              {"Life of", "pvc/data"},
		"/life?kind=pv&name=pv-1":                             {"Life of"},
		"/life?kind=node&name=n1":                             {"node/n1"},
		"/life?kind=storageclass&name=fast":                   {"Used by"},
		"/life?kind=volumesnapshot&namespace=shop&name=snap":  {"Life of"},
		"/map":                      {"Zone zone-a", "1 claim without a pod", "25 %", "3 GiB"},
		"/map?node=n1":              {"pod/web", "handle-77", "snap"},
		"/map?loose=1":              {"pvc/stuck"},
		"/map?q=HANDLE-7":           {"pv/pv-1", "by its handle handle-77"},
		"/map?q=app%3Dweb":          {"pvc/stuck", "by its label app=web", "stuck"},
		"/map?q=nothing-has-this":   {"No name, handle or label"},
		"/numbers":                  {"ClassMissing", "A dump has the objects of one time", "7.0 s"},
		"/reason?name=ClassMissing": {"StorageClass"},
	} {
		code, body := get(t, h, path)
		if code != 200 {
			t.Errorf("%s: %d", path, code)
			continue
		}
		hasAll(t, path, body, wanted...)
		if found := outside.FindString(body); found != "" {
			t.Errorf("%s has %q", path, found)
		}
		if found := inline.FindString(body); found != "" {
			t.Errorf("%s has %q, which the policy forbids", path, found)
		}
	}
}

// An address without an answer is an error that says why.
func TestPagesRefuse(t *testing.T) {
	h := NewServer(stateOf(t, objectsText)).Handler()
	for path, want := range map[string]string{
		"/life?kind=pvc&namespace=shop&name=dato":       "did you mean pvc/data",
		"/life?kind=ship&name=x":                        "expected a kind",
		"/life?kind=pvc":                                "expected the name",
		"/reason?name=Nope":                             "there is no reason",
		"/at?kind=pvc&namespace=shop&name=data&after=x": "seconds after the begin",
		"/f/none/board":                                 "not open any more",
	} {
		code, body := get(t, h, path)
		if code != 404 || !strings.Contains(strings.ToLower(body), strings.ToLower(want)) {
			t.Errorf("%s: %d, without %q: %s", path, code, want, body)
		}
	}
	if code, _ := get(t, h, "/nowhere"); code != 404 {
		t.Errorf("/nowhere: %d", code)
	}
}

// A name or a message is a text wherever it stands.
func TestHostileNames(t *testing.T) {
	const hostile = `x"><script>alert(1)</script>\u202e' onload=a`
	dump := `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"` + strings.ReplaceAll(hostile, `"`, `\"`) +
		`","namespace":"<b>ns</b>","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"<i>":"<u>"}},
		"spec":{"storageClassName":"</title><script>x</script>","accessModes":["ReadWriteOnce"]},"status":{"phase":"Pending"}}`
	s := stateOf(t, dump)
	h := NewServer(s).Handler()
	ref := explain.Ref{Kind: explain.Claim, Namespace: "<b>ns</b>", Name: "x\"><script>alert(1)</script>\u202e' onload=a"}
	paths := []string{
		"/", "/map", "/map?loose=1", "/map?q=%3Cscript%3E", "/map?q=x", "/numbers", "/" + addressOf(ref), "/board?class=" + url.QueryEscape("<script>"),
		"/life?kind=pvc&name=" + url.QueryEscape("<script>"), "/reason?name=" + url.QueryEscape("<script>"),
	}
	var texts []string
	for _, path := range paths {
		_, body := get(t, h, path)
		texts = append(texts, body)
	}
	var report strings.Builder
	if err := Report(&report, s, ReportOptions{Lives: 10}); err != nil {
		t.Fatal(err)
	}
	texts = append(texts, strings.Split(report.String(), "<script>'use")[0])
	for i, text := range texts {
		for _, raw := range []string{"<script>alert", "<script>x", "<b>ns", "<i>", "<u>", "\u202e", `"> onload`} {
			if strings.Contains(text, raw) {
				t.Errorf("page %d has %q as it is", i, raw)
			}
		}
	}
	if code, body := get(t, h, "/"+addressOf(ref)); code != 200 || !strings.Contains(body, `\u202e`) {
		t.Errorf("the page of the object: %d", code)
	}
}

// A filter leaves objects out, and counts what is left.
func TestFilter(t *testing.T) {
	s := stateOf(t, objectsText)
	whole := s.board()
	if whole.Stuck() != 1 || len(whole.Tallies()) == 0 || whole.Tallies()[0].Rows[0].Name != "nope" {
		t.Fatalf("%d stuck, %+v", whole.Stuck(), whole.Tallies())
	}
	for query, want := range map[string]int{
		"": 1, "namespace=shop": 1, "namespace=other": 0, "class=nope": 1, "actor=administrator": 1, "actor=user": 0,
		"class=nope&namespace=shop": 1, "class=nope&node=n1": 0,
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if got := whole.apply(filterOf(values)).Stuck(); got != want {
			t.Errorf("%s: %d stuck, want %d", query, got, want)
		}
	}
	choices := whole.choices(filter{Class: "gone"})
	if i := slices.IndexFunc(choices, func(c choice) bool { return c.Key == "class" }); !slices.Contains(choices[i].Values, "gone") {
		t.Errorf("the chosen value is missing: %+v", choices[i])
	}
}
