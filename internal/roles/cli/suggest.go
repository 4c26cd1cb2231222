package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// UnknownCommand refuses a first argument that names no command, and says which one may be meant. word is
// what the program calls its commands. Cobra's own error would not be a [SyntaxError].
func UnknownCommand(root *cobra.Command, word, name string) error {
	return SyntaxError{Err: fmt.Errorf(
		"unknown %s %q; %ssee '%s --help'", word, name, meant("", suggestions(root, name)), root.CommandPath(),
	)}
}

// FlagError adds to an error of the flags where help is, and which flag may be meant.
func FlagError(c *cobra.Command, err error) error {
	near := ""
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() == "" {
		near = meant("--", nearFlags(c.Flags(), unknown.GetSpecifiedName()))
	}
	return SyntaxError{Err: fmt.Errorf("%w; %ssee '%s --help'", err, near, c.CommandPath())}
}

// mostSuggestions is how many names a message has.
const mostSuggestions = 3

func meant(prefix string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "did you mean " + prefix + strings.Join(names[:min(len(names), mostSuggestions)], " or "+prefix) + "? "
}

// suggestions returns the commands that cobra takes for like a name.
func suggestions(c *cobra.Command, name string) []string {
	const mostDifferent = 2 // characters, as cobra has it for its own errors
	c.SuggestionsMinimumDistance = mostDifferent
	return c.SuggestionsFor(name)
}

// nearFlags returns the flags that cobra would take for like a name if they were commands.
func nearFlags(f *pflag.FlagSet, name string) []string {
	as := &cobra.Command{}
	f.VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden && flag.Deprecated == "" {
			as.AddCommand(&cobra.Command{Use: flag.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return suggestions(as, name)
}
