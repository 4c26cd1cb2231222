package explain

import (
	"strings"
	"testing"

	rules "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
	"github.com/purser-csi/purser/internal/printable"
	"github.com/purser-csi/purser/internal/record"
)

// hostile is a record whose names, messages and calls have characters that a terminal acts on.
const hostile = `{"time":"2026-01-31T12:00:00Z","op":"begin","schema":"purser.record/v1"}
{"time":"2026-01-31T12:00:01Z","op":"listed","unread":{"Pod\u001b[2J":"\u202e"}}
{"time":"2026-01-31T12:00:02Z","op":"add","kind":"PersistentVolumeClaim","namespace":"s\u001b[1m","name":"c","by":["k\u0007"],"object":{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"namespace":"s\u001b[1m","name":"c","uid":"u","resourceVersion":"1","creationTimestamp":"2026-01-31T12:00:02Z"},"spec":{"storageClassName":"x\u009b31m","volumeName":"pv"},"status":{"phase":"Pending"}}}
{"time":"2026-01-31T12:00:03Z","op":"add","kind":"PersistentVolume","name":"pv","object":{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv","uid":"v","resourceVersion":"2"},"spec":{"claimRef":{"namespace":"s\u001b[1m","name":"c","uid":"u"},"csi":{"driver":"d\r\n","volumeHandle":"h\u0000"}},"status":{"phase":"Bound"}}}
{"time":"2026-01-31T12:00:04Z","op":"add","kind":"Event","namespace":"s\u001b[1m","name":"e","object":{"apiVersion":"v1","kind":"Event","metadata":{"namespace":"s\u001b[1m","name":"e","uid":"w","resourceVersion":"3"},"involvedObject":{"kind":"PersistentVolumeClaim","namespace":"s\u001b[1m","name":"c"},"type":"Warning","reason":"ProvisioningFailed\u001b]0;x\u0007","message":"a\u2028b\u0085"}}
{"time":"2026-01-31T12:00:05Z","op":"call","call":{"from":"2026-01-31T12:00:04Z","to":"2026-01-31T12:00:05Z","name":"CreateVolume\u001b[31m","code":"\u202eOK","volume":"pvc-u","role":"r\u0008"}}
{"time":"2026-01-31T12:00:06Z","op":"note","note":"n\u001b[2K"}
{"time":"2026-01-31T12:00:07Z","op":"change","kind":"PersistentVolumeClaim","namespace":"s\u001b[1m","name":"c","patch":{"status":{"phase":"Bound"},"metadata":{"resourceVersion":"4","deletionTimestamp":"0001-01-01T00:00:00Z"}}}
{"time":"0000-01-01T00:00:00Z","op":"change","kind":"PersistentVolumeClaim","namespace":"s\u001b[1m","name":"c","patch":{"metadata":null}}
{"time":"2026-01-31T12:00:09Z","op":"delete","kind":"PersistentVolume","name":"pv","patch":{}}
{"op":"have","kind":"Pod","name":"p","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"},"spec":{"volumes":[null]}}}
{"time":"2026-01-31T12:00:10Z","op":"listed"}
`

// No record makes a program panic, or print what a terminal acts on.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(hostile))
	f.Add([]byte(strings.ReplaceAll(hostile, "2026", "9999")))
	f.Add([]byte(strings.ReplaceAll(hostile, `"uid":"u"`, `"uid":""`)))
	for line := range strings.Lines(hostile) {
		f.Add([]byte(line + line))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<20 {
			return
		}
		loaded, err := record.Load(map[string][]byte{"r": text})
		if err != nil {
			return
		}
		check := func(what, shown string) {
			if shown != printable.Text(shown) {
				t.Errorf("%s prints %q", what, shown)
			}
		}
		history := loaded.History()
		refs := history.Claims("")
		refs = refs[:min(len(refs), 3)]
		answer := life.Answer{Schema: life.Schema, Time: history.Final.Now, Unread: history.Final.UnreadTexts()}
		for _, ref := range refs {
			answer.Lives = append(answer.Lives, history.Lives(ref)...)
		}
		for _, l := range answer.Lives {
			for _, p := range l.Phases {
				checkPhase(t, p)
			}
		}
		for _, format := range []string{"text", "json", "yaml", "perfetto"} {
			shown, err := renderLife(answer, format, 80, plain)
			if err == nil { // JSON has no times after the year 9999
				check("life -o "+format, shown)
			}
		}
		for _, ref := range refs {
			o := explainOptions{output: "text"}
			cluster := history.Final
			explained := Answer{
				Reports: []rules.Report{explainNamed(cluster, ref)}, named: true,
				Calls: lastCalls(cluster, []rules.Ref{ref}, loaded.Calls()),
			}
			shown, err := o.render(explained)
			if err != nil {
				t.Fatal(err)
			}
			check("explain", shown)
		}
		var notes strings.Builder
		(&source{notes: &notes}).note(loaded.Notes)
		check("a note", notes.String())
	})
}

// checkPhase fails the test if the intervals of a phase have a gap or overlap.
func checkPhase(t *testing.T, p life.Phase) {
	t.Helper()
	at := p.From
	for _, i := range p.Intervals {
		if !i.From.Equal(at) || i.To.Before(i.From) {
			t.Errorf("%s: an interval from %s to %s after %s", p.Name, i.From, i.To, at)
		}
		at = i.To
	}
}
