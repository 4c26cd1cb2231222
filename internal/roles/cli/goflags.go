package cli

import "strings"

// SingleDash is the annotation of a command whose upstream program parses its command line with
// Go's flag package: -name=x and --name=x are the same (AT-P1, RZ-P1). Any value sets it.
const SingleDash = "purser-single-dash"

// DoubleDashes returns the arguments with two dashes before each long flag that has one. Shorthands
// of one letter and negative numbers stay as they are, and so does what follows "--".
func DoubleDashes(args []string) []string {
	out := make([]string, 0, len(args))
	for i, arg := range args {
		if arg == "--" {
			return append(out, args[i:]...)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		isNumber := name != "" && '0' <= name[0] && name[0] <= '9'
		if strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && len(name) > 1 && !isNumber {
			arg = "-" + arg
		}
		out = append(out, arg)
	}
	return out
}
