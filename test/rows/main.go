package main

import (
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

//go:embed rows.txt
var rows string

// section is a part of the specification with its rows; a row with a ~ is about something that is not there yet.
type section struct {
	name string
	rows []string
}

func main() { os.Exit(run()) }

func run() int {
	named, err := namedIn(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "rows:", err)
		return 1
	}
	report(sections(rows), named)
	return 0
}

func sections(text string) []section {
	var all []section
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[0] != "#" {
			all = append(all, section{fields[0], fields[1:]})
		}
	}
	return all
}

// A row, or the first and last of several: C-40, H-1b, R-40..R-47, "R-10 to R-14".
var (
	rowPattern   = regexp.MustCompile(`\b[A-Z]{1,2}-\d+[a-z]?\b`)
	rangePattern = regexp.MustCompile(`\b([A-Z]{1,2})-(\d+)(?:\.\.| to |-)(?:[A-Z]{1,2}-)?(\d+)\b`)
)

// namedIn finds the rows that tests below a folder name.
func namedIn(root string) (map[string]bool, error) {
	named := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil {
			collect(string(text), named)
		}
		return err
	})
	return named, err
}

func collect(text string, named map[string]bool) {
	for _, row := range rowPattern.FindAllString(text, -1) {
		named[row] = true
	}
	for _, m := range rangePattern.FindAllStringSubmatch(text, -1) {
		first, _ := strconv.Atoi(m[2])
		last, _ := strconv.Atoi(m[3])
		for n := first; n <= last && last-first < 100; n++ {
			named[m[1]+"-"+strconv.Itoa(n)] = true
		}
	}
}

func report(all []section, named map[string]bool) {
	covered, total, later := 0, 0, 0
	for _, s := range all {
		var with, without, notYet []string
		for _, row := range s.rows {
			switch {
			case named[strings.TrimPrefix(row, "~")]:
				with = append(with, row)
			case strings.HasPrefix(row, "~"):
				notYet = append(notYet, row[1:])
			default:
				without = append(without, row)
			}
		}
		covered, later, total = covered+len(with), later+len(notYet), total+len(s.rows)
		fmt.Printf("%-5s%3d of %3d have a test\n", s.name, len(with), len(s.rows))
		list("without", without)
		list("not there yet", notYet)
	}
	fmt.Printf("all  %3d of %3d have a test, %d are not there yet\n", covered, total, later)
}

func list(title string, rows []string) {
	if len(rows) > 0 {
		fmt.Printf("     %s: %s\n", title, strings.Join(rows, " "))
	}
}
