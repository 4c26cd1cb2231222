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

// unnamed are the words that hide which component, object or person a sentence is about.
var unnamed = regexp.MustCompile(`\b([Nn]obody|[Ss]omebody|[Aa]nybody|[Ww]hoever)\b`)

// account is the only other sense of such a word: the user of that name that Unix systems have.
var account = regexp.MustCompile(`(user\.Lookup\(|"userID": )"nobody"`)

// spoken are the kinds of files with text for readers.
var spoken = []string{".go", ".md", ".yaml", ".sh", ".txt", "Makefile"}

const (
	// lineColumns is the longest line of source, with a tab for one column and without the text of
	// string literals: a message is not broken, so that it can be searched for.
	lineColumns = 120
	// commentColumns is where comments are wrapped. A tab is four columns.
	commentColumns = 100
)

// A sentence names the component, object or person that it is about.
func TestSentencesNameTheirSubject(t *testing.T) {
	eachFile(t, func(path, content string) {
		for i, line := range strings.Split(content, "\n") {
			if word := unnamed.FindString(account.ReplaceAllString(line, "")); word != "" {
				t.Errorf("%s:%d says %q: name the component, object or person instead", path, i+1, word)
			}
		}
	})
}

func TestLinesOfSourceFit(t *testing.T) {
	literal := regexp.MustCompile("\"(\\\\.|[^\"\\\\])*\"|`[^`]*`|`.*$")
	comment := regexp.MustCompile(`^\t*// \S.* .*$`)
	eachFile(t, func(path, content string) {
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return
		}
		for i, line := range strings.Split(content, "\n") {
			if n := utf8.RuneCountInString(literal.ReplaceAllString(line, `""`)); n > lineColumns {
				t.Errorf("%s:%d has %d columns of code, more than %d", path, i+1, n, lineColumns)
			}
			wide := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
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
