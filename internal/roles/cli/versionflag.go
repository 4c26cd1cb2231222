package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

const flagVersion = "version"

// printVersionOf has a command print the name and the version of its program. Cobra has a template
// for such a text; executing one needs package text/template, by which the linker keeps every
// exported method: docs/design.md.
func printVersionOf(program Program, c *cobra.Command) {
	c.Version = "" // with a value, cobra prints a text of its own
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[flagVersion] = program.Name
	args, run := c.Args, c.RunE
	c.Args = func(c *cobra.Command, given []string) error {
		if isVersionAsked(c) {
			return nil
		}
		return args(c, given)
	}
	c.RunE = func(c *cobra.Command, given []string) error {
		if isVersionAsked(c) {
			_, err := fmt.Fprintf(c.OutOrStdout(), "%s %s\n", program.Name, program.Version)
			return err
		}
		return run(c, given)
	}
}

func isVersionAsked(c *cobra.Command) bool {
	flag := c.Flags().Lookup(flagVersion)
	return flag != nil && flag.Value.String() == "true"
}

// AddVersionFlag adds --version to a command of [NewDropInCommand], as cobra does to the others when
// they are executed.
func AddVersionFlag(c *cobra.Command) {
	if c.Annotations[flagVersion] == "" {
		return
	}
	c.InitDefaultHelpFlag() // which cobra adds first
	short := "v"
	if c.Flags().ShorthandLookup(short) != nil {
		short = ""
	}
	c.Flags().BoolP(flagVersion, short, false, "version for "+c.DisplayName())
}
