package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// document is one file of docs/spec.
type document struct {
	name string
	rows []string // in the order of the file
}

// citations are the rows that Go files name. A number, such as 4.4, is preceded by the document it
// belongs to.
type citations struct {
	files   map[string]string // row -> one file that names it
	inTests map[string]bool
}

// The forms of an ID: C-40, H-1b, AT-S5, RZ-H1, SM-30. A definition is the first cell of a table row.
const identifier = `(?:AT|RZ|SN|SM|ND|NR|LP|OC|DV|HM|CB|VP)-[A-Z]{0,2}\d+[a-z]?|(?:A|AN|C|CL|D|EN|EV|F|FI|FL|G|H|HT|LB|LK|M|ME|N|O|P|R|RB|S|ST|T|U|W|X)-\d+[a-z]?`

var (
	definition = regexp.MustCompile(`^\| *\*{0,2}(` + identifier + `)\*{0,2}(?: \([A-Z, ]+\))? *\|`)
	citation   = regexp.MustCompile(`\b(?:` + identifier + `)\b`)
	// interval is the first and the last of several rows: "R-40..R-47", "R-10 to R-14".
	interval = regexp.MustCompile(`\b([A-Z]{1,2}-[A-Z]{0,2})(\d+)(?:\.\.| to )(?:[A-Z]{1,2}-[A-Z]{0,2})?(\d+)\b`)
)

// readSpecification reads the tables of docs/spec below root, and those of binding in docs/design.md.
func readSpecification(root string) ([]document, error) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "spec", "*.md"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no docs/spec/*.md", root)
	}
	if design := filepath.Join(root, "docs", "design.md"); exists(design) {
		files = append(files, design)
	}
	var all []document
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		rows := definitions(string(text))
		if name == controllers || name == driver || name == invariants {
			rows = append(rows, numbers(name, string(text))...)
		}
		if name == "design" {
			rows = bindingRows(string(text))
		}
		if len(rows) > 0 {
			all = append(all, document{name, rows})
		}
	}
	return all, nil
}

// definitions returns the IDs in the first column of the tables of a text.
func definitions(text string) []string {
	var rows []string
	for line := range strings.Lines(text) {
		if m := definition.FindStringSubmatch(line); m != nil {
			rows = append(rows, m[1])
		}
	}
	return rows
}

// readCitations finds the rows that Go files below root name. It leaves out this program and built
// or hidden folders.
func readCitations(root string) (citations, error) {
	all := citations{map[string]string{}, map[string]bool{}}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "bin" || entry.Name() == "rows" || entry.Name() != "." &&
			entry.Name() != ".." && strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		named, between := cite(string(text))
		named = append(named, citeNumbers(path, string(text))...)
		for _, row := range named {
			all.files[row] = path
		}
		if strings.HasSuffix(path, "_test.go") {
			for _, row := range append(named, between...) {
				all.inTests[row] = true
			}
		}
		return nil
	})
	return all, err
}

// cite returns the rows that a text names, and those between the ends of the intervals that it
// names. An interval may skip numbers that the specification does not use.
func cite(text string) (named, between []string) {
	for _, m := range interval.FindAllStringSubmatch(text, -1) {
		first, _ := strconv.Atoi(m[2])
		last, _ := strconv.Atoi(m[3])
		for n := first + 1; n <= last && last-first < 100; n++ {
			between = append(between, m[1]+strconv.Itoa(n))
		}
	}
	return citation.FindAllString(text, -1), between
}

// unresolved returns the cited rows that no document defines.
func (c citations) unresolved(spec []document) []string {
	known := map[string]bool{}
	for _, d := range spec {
		for _, row := range d.rows {
			known[row] = true
		}
	}
	var missing []string
	for _, row := range slices.Sorted(maps.Keys(c.files)) {
		if !known[row] {
			missing = append(missing, row)
		}
	}
	return missing
}
