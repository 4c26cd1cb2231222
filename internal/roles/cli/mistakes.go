package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// Need returns an error unless ok.
func Need(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// ValidateAddress returns an error unless the address is one that HTTP can be served at.
func ValidateAddress(flag, address string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("--%s=%q: must be HOST:PORT or :PORT", flag, address)
	}
	_, err = net.LookupPort("tcp", port)
	return Need(err == nil, "--%s=%q: %q is not a port; give a number from 0 to 65535", flag, address, port)
}

// loggingFlag maps the fields of the logging configuration to their flags.
var loggingFlag = map[string]string{
	"format": "logging-format", "flushFrequency": "log-flush-frequency", "verbosity": "v", "vmodule": "vmodule",
	"options.text.splitStream": "log-text-split-stream", "options.text.infoBufferSize": "log-text-info-buffer-size",
	"options.json.splitStream": "log-json-split-stream", "options.json.infoBufferSize": "log-json-info-buffer-size",
}

// ValidateLogging returns the mistakes in the logging flags, so that they are reported with the
// others (CL-9).
func ValidateLogging(logging *logsapi.LoggingConfiguration) (errs []error) {
	for _, mistake := range logsapi.Validate(logging, nil, nil) {
		setting, _, _ := strings.Cut(mistake.Field, "[")
		flag := "--" + cmp.Or(loggingFlag[setting], setting)
		if value, ok := mistake.BadValue.(string); ok && value != "" {
			flag += fmt.Sprintf("=%q", value)
		}
		errs = append(errs, fmt.Errorf("%s: %s", flag, mistake.Detail))
	}
	return errs
}

// wants says what a flag of each type accepts.
var wants = map[string]string{
	"bool":     "true or false",
	"duration": "a duration, such as 500ms, 10s or 1h30m",
	"float32":  "a number",
	"float64":  "a number",
	"int":      "a whole number",
	"int32":    "a whole number",
	"int64":    "a whole number",
	"uint":     "a whole number",
	"Level":    "a whole number from 0 to 4294967295",
}

// deferredValue is a flag's value that stores a parse error instead of returning it, so that all
// mistakes are reported together (CL-9).
type deferredValue struct {
	pflag.Value
	flag    *pflag.Flag
	mistake error
}

// Set implements pflag.Value. It replaces the messages of the flag library, which are about Go.
func (p *deferredValue) Set(value string) error {
	before := p.String()
	err := p.Value.Set(value)
	if err == nil {
		return nil
	}
	if want, plain := wants[p.Type()]; plain {
		_ = p.Value.Set(before) // the library has overwritten it, and a zero would be one more mistake
		if r := rangeOf(p.flag).String(); r != "" {
			want += ", " + r
		}
		p.mistake = fmt.Errorf("--%s=%q: must be %s", p.flag.Name, value, want)
	} else {
		p.mistake = fmt.Errorf("--%s=%q: %w", p.flag.Name, value, err)
	}
	return nil
}

// CollectMistakes makes every flag store its mistakes for [Mistakes].
func CollectMistakes(f *pflag.FlagSet) {
	f.VisitAll(func(flag *pflag.Flag) { flag.Value = &deferredValue{Value: flag.Value, flag: flag} })
}

// Mistakes returns an error with the values that flags did not accept.
func Mistakes(f *pflag.FlagSet) error {
	var errs []error
	f.VisitAll(func(flag *pflag.Flag) {
		if p, ok := flag.Value.(*deferredValue); ok {
			errs = append(errs, p.mistake)
		}
	})
	return errors.Join(errs...)
}

// LoggingFlags adds the logging flags of the Kubernetes components (F-60 to F-62). Four of them
// need a feature gate that cannot be set; upstream shows them all the same (F-63).
func LoggingFlags(logging *logsapi.LoggingConfiguration) func(*pflag.FlagSet) {
	return func(f *pflag.FlagSet) {
		logsapi.AddFlags(logging, f)
		for _, name := range []string{
			"log-text-split-stream", "log-text-info-buffer-size", "log-json-split-stream", "log-json-info-buffer-size",
		} {
			if flag := f.Lookup(name); flag != nil {
				flag.Hidden = true
			}
		}
	}
}
