package roles

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// notices are what the command line makes worth telling, once each. They are logged when logging is set up.
type notices struct{ lines []notice }

type notice struct{ flag, text string }

func (n *notices) add(flag, text string) {
	if !slices.ContainsFunc(n.lines, func(have notice) bool { return have.flag == flag }) {
		n.lines = append(n.lines, notice{flag, text})
	}
}

// takeStray lets what is no flag be, as upstream does: most often the value of a switch, which needs its = (CL-1).
func (p *Provisioner) takeStray(_ *cobra.Command, args []string) error {
	for _, arg := range args {
		if arg != "" {
			p.notices.add(arg, "is no flag and has no effect; if it is the value of a flag, write it behind the flag and =")
		}
	}
	return nil
}

// retiredFlag is a flag that older versions had and that manifests still carry (CL-6, CL-7). It is accepted with one warning.
type retiredFlag struct {
	name   string
	kind   string // of its value: bool, string, int or duration
	now    string // what it does today
	accept func(value string) error
}

// retiredValue implements pflag.Value.
type retiredValue struct {
	retiredFlag
	notices *notices
}

func (v retiredValue) Set(value string) error {
	v.notices.add("--"+v.name, v.now)
	if v.accept == nil {
		return nil
	}
	return v.accept(value)
}

func (v retiredValue) String() string { return "" }
func (v retiredValue) Type() string   { return v.kind }

// retiredFlags are hidden from the help page and listed in the reference.
func (p *Provisioner) retiredFlags(f *pflag.FlagSet) {
	for _, flag := range slices.Concat(p.retiredOwn(), retiredKlog()) {
		f.Var(retiredValue{flag, p.notices}, flag.name, flag.now)
		added := f.Lookup(flag.name)
		added.Hidden = true
		if flag.kind == "bool" {
			added.NoOptDefVal = "true"
		}
		marked(f, markDeprecated, flag.name)
	}
}

// retiredOwn are upstream's own flags of v0 to v2 (O-1, O-2).
func (p *Provisioner) retiredOwn() []retiredFlag {
	return []retiredFlag{
		{name: "provisioner", kind: "string", now: "has no effect: the driver says its name itself"},
		{name: "connection-timeout", kind: "duration", now: "has no effect: the driver is waited for as long as it takes"},
		{
			name: "enable-leader-election", kind: "bool", accept: p.Election.enableOld,
			now: "does what --leader-election does, and takes v1's lock on an Endpoints object too unless --leader-election-type=leases is given",
		},
		{
			name: "leader-election-type", kind: "string", accept: p.Election.setType,
			now: "leases is what every version since v2 takes; endpoints takes the lock of v1 and the lease, so that neither works beside this instance",
		},
		{
			name: "capacity-controller-deployment-mode", kind: "string", accept: p.Capacity.setMode,
			now: "central and local do what --enable-capacity does, none has no effect",
		},
	}
}

// setMode is --capacity-controller-deployment-mode of v2.0.
func (c *Capacity) setMode(mode string) error {
	switch mode {
	case "", "none":
		return nil
	case "central", "local":
		c.Enabled = true
		return nil
	}
	return fmt.Errorf("%q: must be none, central or local", mode)
}

// retiredKlog are the flags of the logging library before v5.2 (CL-6, O-20).
func retiredKlog() []retiredFlag {
	const now = "has no effect: logs go to standard error, see --logging-format and -v"
	var flags []retiredFlag
	for _, name := range []string{
		"logtostderr", "alsologtostderr", "skip_headers", "skip_log_headers", "add_dir_header", "one_output", "legacy_stderr_threshold_behavior",
	} {
		flags = append(flags, retiredFlag{name: name, kind: "bool", now: now, accept: isBool})
	}
	for _, name := range []string{"log_dir", "log_file", "stderrthreshold", "log_backtrace_at"} {
		flags = append(flags, retiredFlag{name: name, kind: "string", now: now})
	}
	return append(flags, retiredFlag{name: "log_file_max_size", kind: "int", now: now})
}

func isBool(value string) error {
	_, err := strconv.ParseBool(value)
	return err
}
