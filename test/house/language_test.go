package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// banned are words that say in a picture, or without a subject, what Kubernetes has a term for.
// A line with such a word is written again with the term, not with a synonym.
var banned = []struct {
	words string // alternatives of a regular expression, whole words in either case
	say   string
}{
	{`nobody|somebody|anybody|everybody|someone|anyone|everyone|whoever`, "the component, object or user that is meant"},
	{`people`, "users, administrators"},
	{`wakes? (?:up|us|him|it)|wakes|woke|woken|waking|wake-?ups?`, "enqueue, requeue, event handler"},
	{`look(?:s|ed|ing)? again`, "requeue, retry, check once more"},
	{`on (?:the |its )?record`, "in the journal"},
	{`settled (?:entry|entries|requests?)|(?:entry|request)s? (?:is|are|was|were) settled`, "resolved"},
	{`in doubt`, "uncertain"},
	{`at rest`, "has no work left"},
	{`the former`, "the previous leader, the previous claim, ..."},
	{`lets? go|letting go`, "remove the finalizer, release, close"},
	{`gives? up|gave up|given up|giving up`, "the timeout passed, the call was cancelled, deselect the node, release"},
	{`goes away|go away|gone away`, "is deleted, is detached, ends"},
	{`on (?:its|the) way out`, "terminating"},
	{`(?:is|are|was|were) told|hears|heard`, "gets the event, is called, has an event"},
	{`storage side`, "backend, driver"},
	{`twins?`, "PersistentVolumes with the same handle"},
	{`handovers?`, "change of the leader; package handoff"},
	{
		`desks?|harbour|furnish(?:er|es|ed)?|lookouts?|ledgers?|census|errands?|glances?|abreast|dice|pulses?|beats?`,
		"the name a Kubernetes engineer would search for",
	},
}

// exceptions are the other senses of such words.
var exceptions = []*regexp.Regexp{
	regexp.MustCompile(`(user\.Lookup\(|"userID": )"nobody"`), // the account of Unix systems
	regexp.MustCompile(`\bhttp\.NoBody\b`),
	regexp.MustCompile(`\bHandOver\b`), // the action and the interface of the binder
}

// bannedWords matches the words of all bans; the number of the group is that of the ban.
func bannedWords() *regexp.Regexp {
	groups := make([]string, len(banned))
	for i, ban := range banned {
		groups[i] = "(" + ban.words + ")"
	}
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(groups, "|") + `)\b`)
}

// spoken are the kinds of files with text for readers.
var spoken = []string{".go", ".md", ".yaml", ".sh", ".txt", "Makefile"}

const (
	// lineColumns is the longest line of the program, and commentColumns is where comments are wrapped. A
	// tab is four columns.
	lineColumns    = 120
	commentColumns = 100
)

// Sentences and names have the terms of Kubernetes.
func TestSentencesHaveTheTermsOfKubernetes(t *testing.T) {
	words := bannedWords()
	eachFile(t, func(path, content string) {
		for _, exception := range exceptions {
			content = exception.ReplaceAllString(content, "")
		}
		for _, at := range words.FindAllStringSubmatchIndex(content, -1) {
			ban := 0
			for at[2+2*ban] < 0 {
				ban++
			}
			line := 1 + strings.Count(content[:at[0]], "\n")
			t.Errorf("%s:%d says %q; say: %s", path, line, content[at[0]:at[1]], banned[ban].say)
		}
	})
}

// Lines of the program fit; `make format` breaks those that do not.
func TestLinesOfSourceFit(t *testing.T) {
	comment := regexp.MustCompile(`^\t*// \S.* .*$`)
	eachFile(t, func(path, content string) {
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return
		}
		isProgram := strings.HasPrefix(path, "internal") || strings.HasPrefix(path, "cmd")
		for i, line := range strings.Split(content, "\n") {
			wide := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
			if isProgram && wide > lineColumns {
				t.Errorf("%s:%d has %d columns, more than %d: run make format", path, i+1, wide, lineColumns)
			}
			if comment.MatchString(line) && !strings.Contains(line, "://") && wide > commentColumns+10 {
				t.Errorf("%s:%d is a comment of %d columns: wrap it at %d", path, i+1, wide, commentColumns)
			}
		}
	})
}

// eachFile visits the files of the module with text for readers, except built files.
func eachFile(t *testing.T, visit func(path, content string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if name == "bin" || name == ".git" {
				return filepath.SkipDir
			}
			return nil
		}
		for _, end := range spoken {
			if strings.HasSuffix(name, end) && name != "language_test.go" {
				content, err := os.ReadFile(path)
				visit(strings.TrimPrefix(path, root+string(filepath.Separator)), string(content))
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
