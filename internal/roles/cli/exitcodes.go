package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// ExitCode is a code that a command ends with, and its meaning.
type ExitCode struct {
	Number int
	Means  string
}

const exitCodesAnnotation = "purser-exit-codes"

// The codes of roles, which are upstream's (CL-2, CL-4, CL-5).
const (
	exitFailed      = 1
	exitSyntax      = 2
	exitUnknownGate = 255
)

// SetExitCodes documents the codes of a command, on its help page and for [ExitCodes].
func SetExitCodes(c *cobra.Command, codes ...ExitCode) {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	lines := make([]string, len(codes))
	texts := make([]string, len(codes))
	for i, code := range codes {
		lines[i] = fmt.Sprintf("%d %s", code.Number, code.Means)
		texts[i] = lines[i]
	}
	c.Annotations[exitCodesAnnotation] = strings.Join(lines, "\n")
	if c.Long == "" {
		c.Long = c.Short + "."
	}
	c.Long += "\n\n" + wrap("Exit codes: "+strings.Join(texts, "; ")+".", helpWidth)
}

// SetRoleExitCodes documents the codes of a role that runs until it is stopped.
func SetRoleExitCodes(c *cobra.Command) {
	codes := []ExitCode{
		{0, "stopped by a signal"},
		{exitFailed, "a value was refused, or it failed at work"},
		{exitSyntax, "the command line cannot be parsed"},
	}
	if c.Flags().Lookup(FeatureGates) != nil {
		codes = append(codes, ExitCode{exitUnknownGate, "an unknown feature gate"})
	}
	SetExitCodes(c, codes...)
}

// ExitCodes returns the documented codes of a command.
func ExitCodes(c *cobra.Command) (codes []ExitCode) {
	for line := range strings.SplitSeq(c.Annotations[exitCodesAnnotation], "\n") {
		number, means, found := strings.Cut(line, " ")
		if n, err := strconv.Atoi(number); found && err == nil {
			codes = append(codes, ExitCode{n, means})
		}
	}
	return codes
}

// wrap breaks a text into lines of a width.
func wrap(text string, width int) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, line), "\n")
}
