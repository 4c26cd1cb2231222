package explain

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/purser-csi/purser/internal/life"
)

// life -o html prints the page of one object, and refuses several.
func TestLifePage(t *testing.T) {
	out, code, err := run(t, "life", "pvc/b", "-n", "shop", "--from", "-", "-o", "html")
	if code != 0 || !strings.HasPrefix(out, "<!DOCTYPE html>") || !strings.Contains(out, "pvc/b") || strings.Contains(out, "<nav") {
		t.Errorf("%d, %v: %.200s", code, err, out)
	}
	if _, code, err := run(t, "life", "pvc/b", "pvc/c", "-n", "shop", "--from", "-", "-o", "html"); code != 2 || !strings.Contains(err.Error(), "expected one") {
		t.Errorf("%d, %v", code, err)
	}
	if _, code, _ := run(t, "life", "pvc/absent", "-n", "shop", "--from", "-", "-o", "html"); code != 2 {
		t.Errorf("an absent object: %d", code)
	}
}

// shortRecord is a claim that waits for its class, and for a volume after that.
const shortRecord = `{"time":"2026-01-31T12:00:00Z","op":"begin","schema":"purser.record/v1"}
{"time":"2026-01-31T12:00:00Z","op":"listed"}
{"time":"2026-01-31T12:00:01Z","op":"add","kind":"PersistentVolumeClaim","namespace":"shop","name":"c","object":` +
	`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"namespace":"shop","name":"c","uid":"u","resourceVersion":"1",` +
	`"creationTimestamp":"2026-01-31T12:00:01Z"},"spec":{"storageClassName":"fast"},"status":{"phase":"Pending"}}}
{"time":"2026-01-31T12:00:05Z","op":"add","kind":"StorageClass","name":"fast","object":` +
	`{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"fast","uid":"s","resourceVersion":"2",` +
	`"creationTimestamp":"2026-01-31T12:00:05Z"},"provisioner":"d.example.com"}}
`

// A record has its times, also for files that are opened on the pages, and its names can be hidden.
func TestPagesOfRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	if err := os.WriteFile(path, []byte(shortRecord), 0o600); err != nil {
		t.Fatal(err)
	}
	opened, err := OpenFiles(map[string][]byte{"r.jsonl": []byte(shortRecord)})
	if err != nil {
		t.Fatal(err)
	}
	changes := 0
	opened.Changes().Each(func(life.Change) { changes++ })
	if opened.Title != "r.jsonl" || opened.At == nil || changes != 2 {
		t.Errorf("%s, %d changes", opened.Title, changes)
	}
	for second, classes := range map[int]int{2: 0, 5: 1} {
		cluster, err := opened.At(time.Date(2026, 1, 31, 12, 0, second, 0, time.UTC))
		if err != nil || len(cluster.Classes) != classes {
			t.Errorf("after %d s: %v, %d classes", second, err, len(cluster.Classes))
		}
	}
	p := &Pages{source{from: []string{path}}}
	hidden, err := p.HiddenState(t.Context())
	if err != nil || hidden.Cluster.Claims[0].Namespace == "shop" || hidden.At == nil {
		t.Errorf("%v: %+v", err, hidden)
	}
	p = &Pages{source{from: []string{path, path}}}
	if _, err := p.HiddenState(t.Context()); err == nil || !strings.Contains(err.Error(), "--hide-names") {
		t.Errorf("two records: %v", err)
	}
	if _, err := OpenFiles(map[string][]byte{"x": []byte("no object")}); err == nil {
		t.Error("a file without objects is opened")
	}
}
