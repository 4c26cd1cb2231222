package quoted

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Command is a command that a page quotes.
type Command struct {
	Page   string // its path
	Line   int
	Text   string // on one line, without comment, redirection and what follows a pipe
	Output string // what the page shows below it; empty if it shows none
	Inline bool   // within a sentence, where a flag may stand without its value
}

// At says where the command is.
func (c Command) At() string { return fmt.Sprintf("%s:%d: %s", c.Page, c.Line, c.Text) }

// Words are the words of the command, without quotes.
func (c Command) Words() []string {
	var words []string
	for _, word := range word.FindAllString(c.Text, -1) {
		words = append(words, strings.NewReplacer(`"`, "", "'", "").Replace(word))
	}
	return words
}

// Program is the program that is called: "kubectl purser" for the plugin, and "purser" wherever it is.
func (c Command) Program() string {
	words := c.Words()
	if len(words) > 1 && words[0] == "kubectl" && words[1] == "purser" {
		return "kubectl purser"
	}
	return strings.TrimPrefix(words[0], "bin/")
}

// Args are the words after the program.
func (c Command) Args() []string { return c.Words()[len(strings.Fields(c.Program())):] }

// programs are those whose calls are commands. What else begins a line of a block is something else,
// such as a tree of folders.
var programs = []string{
	"purser", "bin/purser", "kubectl", "make", "helm", "crane", "cosign", "ctr", "go", "git", "tar", "sed", "apt-get",
	"sha256sum", "for", "cd", "curl",
	"tools/crds.sh",
}

var (
	word       = regexp.MustCompile(`(?:[^\s"']|"[^"]*"|'[^']*')+`)
	inlineCode = regexp.MustCompile("`([^`\n]+)`")
	comment    = regexp.MustCompile(`\s+# .*$`)
	elsewhere  = regexp.MustCompile(`\s+([|&;<>]|\d>|&&).*$`)
	explained  = regexp.MustCompile(`\S\s{2,}\S.*$`) // a usage line with its meaning beside it
)

// Pages returns the pages whose commands are run. Those of docs/spec are about upstream's repositories,
// and those of docs/runbooks.md are what explain prints, which test/explain parses.
func Pages(root string) ([]string, error) {
	pages := []string{"README.md", "CONTRIBUTING.md", "deploy/chart/README.md"}
	more, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	for _, page := range more {
		relative, err := filepath.Rel(root, page)
		if err != nil {
			return nil, err
		}
		if relative = filepath.ToSlash(relative); relative != "docs/runbooks.md" {
			pages = append(pages, relative)
		}
	}
	return pages, err
}

// All returns the commands of all pages.
func All(root string) (all []Command, err error) {
	pages, err := Pages(root)
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			return nil, err
		}
		all = append(all, Of(page, string(text))...)
	}
	return all, nil
}

// Of returns the commands of a page: those of its blocks, and those in its sentences.
func Of(page, text string) (all []Command) {
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		if language, is := strings.CutPrefix(strings.TrimSpace(lines[i]), "```"); is {
			end := i + 1
			for end < len(lines) && !strings.HasPrefix(strings.TrimSpace(lines[end]), "```") {
				end++
			}
			if slices.Contains([]string{"", "sh", "console"}, language) {
				all = append(all, ofBlock(page, i+1, lines[i+1:end])...)
			}
			i = end
			continue
		}
		for _, code := range inlineCode.FindAllStringSubmatch(lines[i], -1) {
			if isCommand(code[1]) && strings.Contains(code[1], " ") {
				all = append(all, Command{Page: page, Line: i + 1, Text: plain(code[1]), Inline: true})
			}
		}
	}
	return all
}

// ofBlock returns the commands of a block. With prompts the lines after a command are its output.
func ofBlock(page string, above int, lines []string) (all []Command) {
	session := slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "$ ") })
	for i := 0; i < len(lines); i++ {
		text, prompted := strings.CutPrefix(lines[i], "$ ")
		if session && !prompted {
			if len(all) > 0 {
				all[len(all)-1].Output += lines[i] + "\n"
			}
			continue
		}
		c := Command{Page: page, Line: above + i + 1}
		for strings.HasSuffix(text, `\`) && i+1 < len(lines) {
			i++
			text = strings.TrimSpace(strings.TrimSuffix(text, `\`)) + " " + strings.TrimSpace(lines[i])
		}
		if text = strings.TrimSpace(text); isCommand(text) {
			c.Text = plain(text)
			all = append(all, c)
		}
	}
	return all
}

func isCommand(text string) bool {
	first, _, _ := strings.Cut(text, " ")
	return slices.Contains(programs, first)
}

// plain removes what is not of the command.
func plain(text string) string {
	text = comment.ReplaceAllString(text, "")
	text = elsewhere.ReplaceAllString(text, "")
	text = explained.ReplaceAllStringFunc(text, func(found string) string { return found[:1] })
	return strings.Join(strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(text)), " ")
}

var (
	targets   = regexp.MustCompile(`(?m)^([a-z0-9-]+):`)
	variables = regexp.MustCompile(`(?m)\b([A-Z_]+) *[:?]?=|\$\(([A-Z_]+)\)|^ifdef ([A-Z_]+)$`)
)

// CheckMake returns an error unless the Makefile has the targets and variables of a call of make.
func CheckMake(makefile string, args []string) error {
	has := func(of *regexp.Regexp, name string) bool {
		all := of.FindAllStringSubmatch(makefile, -1)
		return slices.ContainsFunc(all, func(m []string) bool { return slices.Contains(m[1:], name) })
	}
	for _, arg := range args {
		name, _, isVariable := strings.Cut(arg, "=")
		switch {
		case isVariable && !has(variables, name):
			return fmt.Errorf("the Makefile has no variable %s", name)
		case !isVariable && !has(targets, arg):
			return fmt.Errorf("the Makefile has no target %s", arg)
		}
	}
	return nil
}
