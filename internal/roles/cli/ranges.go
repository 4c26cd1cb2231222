package cli

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// Range has the smallest and the largest value that a numeric flag accepts, as texts of the flag's type.
// A flag without a range of its own has the one that [rangeOf] derives from its type and default.
type Range struct {
	Least string // empty for no bound
	Most  string // empty for no bound
	Or    string // one more value, outside of the range; empty for none
	// With are the flags that switch on the feature that the flag is a setting of. Without any of them the
	// value is not read, and is accepted as upstream does.
	With []string
}

const rangeAnnotation = "purser-range"

// Ranged sets the range of flags.
func Ranged(f *pflag.FlagSet, r Range, names ...string) {
	for _, name := range names {
		flag := f.Lookup(name)
		if flag.Annotations == nil {
			flag.Annotations = map[string][]string{}
		}
		flag.Annotations[rangeAnnotation] = append([]string{r.Least, r.Most, r.Or}, r.With...)
	}
}

// The bounds of flags without others. They are far above what a cluster can use, and below what overflows:
// each thread is a goroutine from the start, and durations are added and doubled.
const (
	mostThreads  = "10000"
	mostDuration = "8760h" // a year
	mostWhole    = "2147483647"
	mostNumber   = "1000000000"
	tick         = "1ns" // the smallest duration above 0
)

// rangeOf returns the range of a flag. By default the smallest value is the first above 0, or the default
// of the flag if that is 0 or less, since it has a meaning then.
func rangeOf(flag *pflag.Flag) Range {
	if own := flag.Annotations[rangeAnnotation]; len(own) > 0 {
		return Range{Least: own[0], Most: own[1], Or: own[2], With: own[3:]}
	}
	switch kind := flag.Value.Type(); kind {
	case "uint":
		return Range{Least: leastByDefault(flag, "1"), Most: mostThreads}
	case "int", "int32", "int64":
		return Range{Least: leastByDefault(flag, "1"), Most: mostWhole}
	case "float32", "float64":
		above := strconv.FormatFloat(math.SmallestNonzeroFloat32, 'g', -1, 32)
		return Range{Least: leastByDefault(flag, above), Most: mostNumber}
	case "duration":
		return Range{Least: leastByDefault(flag, tick), Most: mostDuration}
	}
	return Range{}
}

func leastByDefault(flag *pflag.Flag, otherwise string) string {
	if number, err := numberOf(flag.DefValue); err == nil && number <= 0 {
		return flag.DefValue
	}
	return otherwise
}

// numberOf returns a number, or a duration in nanoseconds.
func numberOf(text string) (float64, error) {
	number, err := strconv.ParseFloat(text, 64)
	if err == nil {
		return number, nil
	}
	d, err := time.ParseDuration(text)
	return float64(d), err
}

// isNumeric reports whether the flag has a number or a duration. Flags of older versions have no effect
// and no range.
func isNumeric(flag *pflag.Flag) bool {
	_, numeric := wants[flag.Value.Type()]
	return numeric && flag.Value.Type() != "bool" && MarkOf(flag) != MarkDeprecated
}

// String returns the range as the end of a sentence that begins with "must be"; empty for no bounds.
func (r Range) String() string {
	text := ""
	least, err := numberOf(r.Least)
	isAboveZero := err == nil && least > 0 && least < 1 || r.Least == tick
	switch {
	case isAboveZero && r.Most != "":
		text = fmt.Sprintf("more than 0 and at most %s", r.Most)
	case isAboveZero:
		text = "more than 0"
	case r.Least != "" && r.Most != "":
		text = fmt.Sprintf("from %s to %s", r.Least, r.Most)
	case r.Least != "":
		text = "at least " + r.Least
	case r.Most != "":
		text = "at most " + r.Most
	}
	if r.Or != "" {
		text = r.Or + " or " + text
	}
	return text
}

// has reports whether the value is in the range; NaN is not.
func (r Range) has(value string) bool {
	number, err := numberOf(value)
	if err != nil {
		return false
	}
	least, _ := numberOf(cmp.Or(r.Least, "-Inf"))
	most, _ := numberOf(cmp.Or(r.Most, "+Inf"))
	return least <= number && number <= most || value == r.Or
}

// isRead reports whether the flags that the range depends on are given.
func (r Range) isRead(f *pflag.FlagSet) bool {
	for _, name := range r.With {
		if flag := f.Lookup(name); flag != nil && flag.Changed && flag.Value.String() != "false" {
			return true
		}
	}
	return len(r.With) == 0
}

// OutOfRange returns an error with the numeric flags whose value is outside of their range. It sets
// these back to their defaults, so that a role does not report the value once more.
func OutOfRange(f *pflag.FlagSet) error {
	var errs []error
	f.Visit(func(flag *pflag.Flag) {
		r := rangeOf(flag)
		value := flag.Value.String()
		if !isNumeric(flag) || r.has(value) || !r.isRead(f) {
			return
		}
		errs = append(errs, fmt.Errorf("--%s=%s: must be %s", flag.Name, value, cmp.Or(r.String(), "a number")))
		if err := flag.Value.Set(flag.DefValue); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag.Name, err))
		}
	})
	return errors.Join(errs...)
}
