package roles

import (
	"errors"
	"fmt"
	"net"

	"github.com/spf13/pflag"
)

// need is an error unless ok.
func need(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// validateAddress is for where a role serves HTTP.
func validateAddress(flag, address string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("--%s=%q: must be HOST:PORT or :PORT", flag, address)
	}
	_, err = net.LookupPort("tcp", port)
	return need(err == nil, "--%s=%q: %q is not a port; give a number from 0 to 65535", flag, address, port)
}

// wants is what a flag of each type takes.
var wants = map[string]string{
	"bool":     "true or false",
	"duration": "a duration, such as 500ms, 10s or 1h30m",
	"float32":  "a number",
	"float64":  "a number",
	"int":      "a whole number",
	"int64":    "a whole number",
	"uint":     "a whole number that is not negative",
}

// misparsed says which value the command line gives to a flag that does not take it, in other words than the library's, which are about
// Go.
func misparsed(err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	flag := invalid.GetFlag()
	if want, plain := wants[flag.Value.Type()]; plain {
		return fmt.Errorf("--%s=%q: must be %s", flag.Name, invalid.GetValue(), want)
	}
	return fmt.Errorf("--%s=%q: %w", flag.Name, invalid.GetValue(), invalid.Unwrap())
}
