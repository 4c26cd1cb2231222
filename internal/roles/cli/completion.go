package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// CompletionCommand returns the command that prints the completion of a shell for the program.
func CompletionCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print the completion of commands, flags and names for bash, zsh or fish",
		Long: `Prints a script for bash, zsh or fish that completes commands, flags and their
values, and the kinds and names of objects, which it reads from the cluster.`,
		Example: `  source <(purser completion bash)
  purser completion zsh > "${fpath[1]}/_purser"
  purser completion fish > ~/.config/fish/completions/purser.fish`,
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return SyntaxError{fmt.Errorf("give one of bash, zsh and fish; see '%s --help'", c.CommandPath())}
		},
		RunE: func(c *cobra.Command, args []string) error {
			switch root, out := c.Root(), c.OutOrStdout(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			}
			return SyntaxError{fmt.Errorf("%q: unknown shell; there are bash, zsh and fish", args[0])}
		},
	}
	SetExitCodes(c, ExitCode{0, "printed"}, ExitCode{exitSyntax, "no such shell"})
	return c
}
