package ui

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// pagesOf returns the pages in a report.
func pagesOf(t *testing.T, report string) (pages map[string]string) {
	t.Helper()
	data := regexp.MustCompile(`<div id="pages" hidden>([^<]*)</div>`).FindStringSubmatch(report)
	if data == nil {
		t.Fatal("the report has no pages")
	}
	packed, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(data[1], "&#43;", "+"))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &pages); err != nil {
		t.Fatal(err)
	}
	return pages
}

// A report has all pages, each link in it leads to one of them, and its policy has the hashes of its
// script and style.
func TestReport(t *testing.T) {
	var out strings.Builder
	if err := Report(&out, stateOf(t, objectsText), ReportOptions{Lives: 100}); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	pages := pagesOf(t, text)
	for _, address := range []string{
		"board", "map", "numbers", "life?kind=pvc&namespace=shop&name=stuck", "life?kind=pvc&namespace=shop&name=data",
		"reason?name=ClassMissing",
	} {
		if pages[address] == "" {
			t.Errorf("the report lacks %s", address)
		}
	}
	links := regexp.MustCompile(` href="#!([^"]*)"`)
	for address, page := range pages {
		for _, link := range links.FindAllStringSubmatch(page, -1) {
			if pages[strings.ReplaceAll(link[1], "&amp;", "&")] == "" {
				t.Errorf("%s links to %s, which the report lacks", address, link[1])
			}
		}
		if strings.Contains(page, "<form class=\"filter") || strings.Contains(page, `href="board`) {
			t.Errorf("%s has what works on a server alone", address)
		}
	}
	for _, part := range []string{"script", "style"} {
		_, inner, _ := strings.Cut(text, "<"+part+">")
		inner, _, _ = strings.Cut(inner, "</"+part+">")
		if !strings.Contains(text, "sha256-"+hashOf(inner)) {
			t.Errorf("the policy does not allow the %s", part)
		}
	}
	if found := outside.FindString(text); found != "" || strings.Contains(text, "unsafe-") {
		t.Errorf("the report has %q", found)
	}
	if !strings.Contains(text, "ClassMissing") {
		t.Error("the first page is not in the file as it is")
	}
}

// The page of one object is a file without others.
func TestReportOfOne(t *testing.T) {
	var out strings.Builder
	ref := explain.Ref{Kind: explain.Claim, Namespace: "shop", Name: "data"}
	if err := Report(&out, stateOf(t, objectsText), ReportOptions{Objects: []explain.Ref{ref}, Single: true}); err != nil {
		t.Fatal(err)
	}
	hasAll(t, "the page", out.String(), "handle-77", "created to mounted")
	if strings.Contains(out.String(), "<nav") || strings.Contains(out.String(), "nope") {
		t.Error("it has more than the one object")
	}
	ref.Name = "absent"
	if err := Report(io.Discard, stateOf(t, objectsText), ReportOptions{Objects: []explain.Ref{ref}, Single: true}); err == nil {
		t.Error("an object that is not there has a page")
	}
}

// A report has at most 1 MB for 100 volumes.
func TestSizeOfReport(t *testing.T) {
	var dump strings.Builder
	const volumes = 100
	names := regexp.MustCompile(`\b(web|data|pv-1|handle-77)\b|uid: [upw]\b`)
	for i := range volumes {
		for object := range strings.SplitSeq(objectsText, "\n---\n") {
			if strings.Contains(object, "name: web") || strings.Contains(object, "name: data,") || strings.Contains(object, "name: pv-1") {
				dump.WriteString(names.ReplaceAllString(object, fmt.Sprint("${0}-", i)) + "\n---\n")
			}
		}
	}
	var out strings.Builder
	if err := Report(&out, stateOf(t, dump.String()), ReportOptions{Lives: volumes}); err != nil {
		t.Fatal(err)
	}
	lives := 0
	for address := range pagesOf(t, out.String()) {
		if strings.HasPrefix(address, "life?kind=pvc") {
			lives++
		}
	}
	t.Logf("%d bytes for %d volumes", out.Len(), lives)
	if lives != volumes || out.Len() > 1_000_000 {
		t.Errorf("%d bytes for %d volumes", out.Len(), lives)
	}
}

// No value of a secret, no environment and no argument of a container is in a page or a report.
func TestNoSecrets(t *testing.T) {
	const value = "correct-horse-battery-staple"
	dump := objectsText + `
---
{apiVersion: v1, kind: Secret, metadata: {name: key, namespace: shop, annotations: {note: ` + value + `}}, stringData: {password: ` + value + `}, data: {password: Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5LXN0YXBsZQ==}}
---
{apiVersion: v1, kind: Pod, metadata: {name: leaky, namespace: shop, creationTimestamp: "2026-01-01T00:00:01Z",
  annotations: {kubectl.kubernetes.io/last-applied-configuration: ` + value + `}},
  spec: {containers: [{name: c, image: i, args: [` + value + `], env: [{name: PASSWORD, value: ` + value + `}]}],
    volumes: [{name: v, persistentVolumeClaim: {claimName: stuck}}]}, status: {phase: Pending}}
`
	s := stateOf(t, dump)
	h := NewServer(s).Handler()
	var all strings.Builder
	for _, path := range []string{
		"/", "/map", "/map?loose=1", "/map?q=key", "/map?q=leaky", "/numbers", "/life?kind=pod&namespace=shop&name=leaky",
		"/life?kind=secret&namespace=shop&name=key", "/life?kind=pvc&namespace=shop&name=stuck",
	} {
		code, body := get(t, h, path)
		if code != 200 {
			t.Errorf("%s: %d", path, code)
		}
		all.WriteString(body)
	}
	var report strings.Builder
	if err := Report(&report, s, ReportOptions{Lives: 100}); err != nil {
		t.Fatal(err)
	}
	all.WriteString(report.String())
	for _, page := range pagesOf(t, report.String()) {
		all.WriteString(page)
	}
	for _, secret := range []string{value, "Y29ycmVjdC1ob3JzZS"} {
		if strings.Contains(all.String(), secret) {
			t.Errorf("%q is shown", secret)
		}
	}
}
