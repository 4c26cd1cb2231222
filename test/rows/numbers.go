package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// The documents whose rows are the numbers of sections, such as 4.4. The last section that has rows
// in volume-controllers is a table: 8.21 is its row 21.
const (
	controllers = "volume-controllers"
	driver      = "driver"
	invariants  = "invariants"
)

// number is a section, a row of the tables of binding (T1.2, T2.e), or a letter with a number: a
// contract (C6), a write of a binding (W1), a restart (R4), an invariant (I3, A1, S2).
const number = `(?:[1-9]\.\d{1,2}|T[12]\.(?:\d{1,2}|[a-f])|[A-Z]\d{1,2})`

var (
	section   = regexp.MustCompile(`^### (\d+\.\d+) `)
	contract  = regexp.MustCompile(`^ *([CRW]\d+) `)
	invariant = regexp.MustCompile(`^\| ([AIS]\d+) \|`)
	tableRow  = regexp.MustCompile(`^\| (\d+) \|`)
	chapter   = regexp.MustCompile(`^## (\d+)\. `)
	binding   = regexp.MustCompile(`^\| (T[12]) \|`)
	ofBinding = regexp.MustCompile(`^\| (\d+|[a-f])(?:, (\d+))? \|`)

	// numberList is one number or several, where nothing but an ID is likely: at the beginning of a
	// comment, alone in parentheses, or at the beginning of a name in a test.
	numberList = regexp.MustCompile(
		`(?://|") ?((?:` + number + `(?:, | and | to )?)+)(?: step \d| [a-z])?[ ,:;.)]|` +
			`\(((?:` + number + `(?:, | and | to )?)+)\)`,
	)
	oneNumber = regexp.MustCompile(number)
	// call is an argument that is a number, such as quantile(0.5) or t(1.5).
	call = regexp.MustCompile(`\w\(\d+\.\d+\)`)
	// version is a string of nothing but a number, or of a number and a file size or share.
	version = regexp.MustCompile(`"\d+\.\d+(?:"|\.\d| ?(?:ms|s|GB|GiB|MiB|%))`)
)

// numbers returns the rows that a document defines by the numbers of its sections.
func numbers(name, text string) (rows []string) {
	var at string
	for line := range strings.Lines(text) {
		if m := chapter.FindStringSubmatch(line); m != nil {
			at = m[1]
		}
		switch {
		case section.MatchString(line):
			rows = append(rows, name+" "+section.FindStringSubmatch(line)[1])
		case name == controllers && contract.MatchString(line):
			rows = append(rows, contract.FindStringSubmatch(line)[1])
		case name == invariants && invariant.MatchString(line):
			rows = append(rows, invariant.FindStringSubmatch(line)[1])
		case name == controllers && at == "8" && tableRow.MatchString(line):
			rows = append(rows, name+" 8."+tableRow.FindStringSubmatch(line)[1])
		}
	}
	return rows
}

// bindingRows returns the rows of the tables T1 and T2 of docs/design.md.
func bindingRows(text string) (rows []string) {
	var table string
	for line := range strings.Lines(text) {
		switch m := binding.FindStringSubmatch(line); {
		case m != nil:
			table = m[1]
			rows = append(rows, table)
		case !strings.HasPrefix(line, "|"):
			table = ""
		case table != "" && ofBinding.MatchString(line):
			for _, row := range ofBinding.FindStringSubmatch(line)[1:] {
				if row != "" {
					rows = append(rows, table+"."+row)
				}
			}
		}
	}
	return rows
}

// citeNumbers returns the numbers that a Go file names. Those in the driver's folders are of its own
// document, all others of volume-controllers.
func citeNumbers(path, text string) (rows []string) {
	name := controllers
	for _, folder := range []string{"internal/driver/", "internal/loopdev/", "test/ceph/", "test/sanity/"} {
		if strings.Contains(filepath.ToSlash(path), folder) {
			name = driver
		}
	}
	for line := range strings.Lines(text) {
		code, comment, _ := strings.Cut(line, "//")
		if !strings.HasSuffix(path, "_test.go") {
			code = "" // only tests have names with IDs
		}
		line = version.ReplaceAllString(call.ReplaceAllString(code, ""), "") + "//" + comment
		for _, m := range numberList.FindAllStringSubmatch(line, -1) {
			for _, row := range oneNumber.FindAllString(m[1]+" "+m[2], -1) {
				if row[0] < 'A' {
					row = name + " " + row
				}
				rows = append(rows, row)
			}
		}
	}
	return rows
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
