package cli

import (
	"slices"

	"github.com/spf13/pflag"
)

// Overrides are flags of single roles in a process of several. They win over the flag that all roles
// have in common, in any order of the command line.
type Overrides struct{ all []*override }

// override is the value of such a flag.
type override struct {
	pflag.Value // of the role
	text        string
	given       bool
}

// Set implements pflag.Value.
func (o *override) Set(value string) error {
	if err := o.Value.Set(value); err != nil {
		return err
	}
	o.text, o.given = value, true
	return nil
}

// scalars are the types of values that can be set again without another effect.
var scalars = []string{"bool", "string", "int", "int32", "int64", "uint", "float32", "float64", "duration"}

// AddPrefixed adds the flags of a role as --PREFIX-FLAG, hidden from the help page (KEP-4958: OC-4, OC-9).
// It leaves out the flags that are about the whole process, and those that are not simple values.
func (o *Overrides) AddPrefixed(f *pflag.FlagSet, prefix string, add func(*pflag.FlagSet), leftOut ...string) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	add(own)
	own.VisitAll(func(flag *pflag.Flag) {
		if slices.Contains(leftOut, flag.Name) || !slices.Contains(scalars, flag.Value.Type()) ||
			MarkOf(flag) == MarkDeprecated {
			return
		}
		o.add(f, prefix+"-"+flag.Name, flag).Hidden = true
	})
}

// AddOne adds one flag of a role, as --PREFIX-FLAG or, without a prefix, under its own name.
func (o *Overrides) AddOne(f *pflag.FlagSet, prefix, name, usage string, add func(*pflag.FlagSet)) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	add(own)
	flag := own.Lookup(name)
	if prefix != "" {
		name = prefix + "-" + name
	}
	o.add(f, name, flag).Usage = usage
}

func (o *Overrides) add(f *pflag.FlagSet, name string, flag *pflag.Flag) *pflag.Flag {
	value := &override{Value: flag.Value}
	o.all = append(o.all, value)
	added := *flag
	added.Name, added.Shorthand, added.Value = name, "", value
	f.AddFlag(&added)
	return &added
}

// Apply sets the values that the command line gives once more, after the values of the common flags.
func (o *Overrides) Apply() error {
	for _, one := range o.all {
		if one.given {
			if err := one.Value.Set(one.text); err != nil {
				return err
			}
		}
	}
	return nil
}
