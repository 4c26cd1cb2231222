package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() { os.Exit(run(".", os.Stdout, os.Stderr)) }

// run reports on the tree below root. It returns 1 if a source cites a row that docs/spec does not
// have.
func run(root string, out, errs io.Writer) int {
	spec, err := readSpecification(root)
	if err != nil {
		fmt.Fprintln(errs, "rows:", err)
		return 1
	}
	cited, err := readCitations(root)
	if err != nil {
		fmt.Fprintln(errs, "rows:", err)
		return 1
	}
	for _, document := range spec {
		document.report(out, cited)
	}
	unresolved := cited.unresolved(spec)
	for _, row := range unresolved {
		fmt.Fprintf(errs, "rows: %s is cited in %s, and docs/spec has no such row\n", row, cited.files[row])
	}
	if len(unresolved) > 0 {
		return 1
	}
	return 0
}

// report prints how many rows of the document have a test that names them, and which have none.
func (d document) report(out io.Writer, cited citations) {
	var without []string
	for _, row := range d.rows {
		if !cited.inTests[row] {
			without = append(without, row)
		}
	}
	fmt.Fprintf(out, "%-24s %3d of %3d rows have a test\n", d.name, len(d.rows)-len(without), len(d.rows))
	for i, row := range without {
		without[i] = strings.TrimPrefix(row, d.name+" ")
	}
	for part := range slices.Chunk(without, 14) {
		fmt.Fprintf(out, "  without: %v\n", part)
	}
}
