package cli

import (
	"slices"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
)

// Notices are warnings about the command line, at most one for each flag. They are logged when
// logging is set up.
type Notices struct{ Lines []Notice }

// Notice is a warning about one flag.
type Notice struct{ Flag, Text string }

// Add adds a warning about a flag, unless the flag has one already.
func (n *Notices) Add(flag, text string) {
	if !slices.ContainsFunc(n.Lines, func(have Notice) bool { return have.Flag == flag }) {
		n.Lines = append(n.Lines, Notice{flag, text})
	}
}

// LogTo logs each notice.
func (n *Notices) LogTo(log logr.Logger) {
	for _, line := range n.Lines {
		log.Info("the flag is deprecated or not supported", "flag", line.Flag, "effect", line.Text)
	}
}

// RetiredFlag is a flag that older versions had and that manifests still carry (CL-6, CL-7). It is
// accepted with one warning.
type RetiredFlag struct {
	Name   string
	Kind   string // of its value: bool, string, int or duration
	Now    string // what it does today
	Accept func(value string) error
}

// retiredValue implements pflag.Value.
type retiredValue struct {
	RetiredFlag
	notices *Notices
}

// Set implements pflag.Value.
func (v retiredValue) Set(value string) error {
	v.notices.Add("--"+v.Name, v.Now)
	if v.Accept == nil {
		return nil
	}
	return v.Accept(value)
}

// String implements pflag.Value.
func (v retiredValue) String() string { return "" }
func (v retiredValue) Type() string   { return v.Kind }

// AddRetired adds flags that are hidden from the help page and listed in the reference.
func AddRetired(f *pflag.FlagSet, notices *Notices, flags ...RetiredFlag) {
	for _, flag := range flags {
		f.Var(retiredValue{flag, notices}, flag.Name, flag.Now)
		added := f.Lookup(flag.Name)
		added.Hidden = true
		if flag.Kind == "bool" {
			added.NoOptDefVal = "true"
		}
		Marked(f, MarkDeprecated, flag.Name)
	}
}

// RetiredSwitches returns boolean flags of older versions.
func RetiredSwitches(names []string) (all []RetiredFlag) {
	for _, name := range names {
		all = append(all, RetiredFlag{Name: name, Kind: "bool", Now: "has no effect: the flag is of an older version"})
	}
	return all
}

// RetiredKlog are the flags of the logging library before v5.2 (CL-6, O-20).
func RetiredKlog() []RetiredFlag {
	const now = "has no effect: logs go to standard error, see --logging-format and -v"
	var flags []RetiredFlag
	for _, name := range []string{
		"logtostderr", "alsologtostderr", "skip_headers", "skip_log_headers", "add_dir_header", "one_output",
		"legacy_stderr_threshold_behavior",
	} {
		flags = append(flags, RetiredFlag{Name: name, Kind: "bool", Now: now, Accept: IsBool})
	}
	for _, name := range []string{"log_dir", "log_file", "stderrthreshold", "log_backtrace_at"} {
		flags = append(flags, RetiredFlag{Name: name, Kind: "string", Now: now})
	}
	return append(flags, RetiredFlag{Name: "log_file_max_size", Kind: "int", Now: now})
}

// IsBool returns an error unless the value is a boolean.
func IsBool(value string) error {
	_, err := strconv.ParseBool(value)
	return err
}

// IsDuration returns an error unless the value is a duration.
func IsDuration(value string) error {
	_, err := time.ParseDuration(value)
	return err
}
