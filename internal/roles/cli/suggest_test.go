package cli

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A mistyped command or flag is refused with the one that may be meant, and nothing is suggested that is
// unlike or hidden.
func TestMistypedNames(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"explian", `unknown role "explian"; did you mean explain? see 'purser --help'`},
		{"expl", `unknown role "expl"; did you mean explain? see 'purser --help'`},
		{"sail", `unknown role "sail"; see 'purser --help'`},
		{"explain --from-fiel x", "unknown flag: --from-fiel; did you mean --from-file? see 'purser explain --help'"},
		{"explain --al", "unknown flag: --al; did you mean --all? see 'purser explain --help'"},
		{"explain --secre", "unknown flag: --secre; see 'purser explain --help'"},
		{"explain --colour", "unknown flag: --colour; see 'purser explain --help'"},
		{"explain -q", "unknown shorthand flag: 'q' in -q; see 'purser explain --help'"},
	} {
		root := &cobra.Command{
			Use: "purser", SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error { return nil },
		}
		root.Args = func(c *cobra.Command, args []string) error { return UnknownCommand(c, "role", args[0]) }
		root.SetFlagErrorFunc(FlagError)
		explain := &cobra.Command{Use: "explain", RunE: root.RunE}
		explain.Flags().String("from-file", "", "")
		explain.Flags().Bool("all", false, "")
		explain.Flags().Bool("secret", false, "")
		explain.Flags().Lookup("secret").Hidden = true
		root.AddCommand(explain)
		root.SetArgs(strings.Fields(tc.args))
		root.SetOut(io.Discard)
		err := root.Execute()
		if err == nil || err.Error() != tc.want {
			t.Errorf("%s: %v, want %s", tc.args, err, tc.want)
		}
		if _, ok := errors.AsType[SyntaxError](err); !ok {
			t.Errorf("%s: %T is not a SyntaxError", tc.args, err)
		}
	}
}
