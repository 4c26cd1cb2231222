package roles

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// gateFlag is the value of --feature-gates of a sidecar. Given twice, it merges (AT-P3). A gate that upstream removed, and that charts
// still set, is a warning (RZ-P2).
type gateFlag struct {
	known   map[string]bool // with their defaults
	removed []string
	on      map[string]bool
	notices *notices
}

// Enabled reports whether a gate is on.
func (g *gateFlag) Enabled(name string) bool {
	if on, given := g.on[name]; given {
		return on
	}
	return g.known[name]
}

func (g *gateFlag) describe() string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(g.known)) {
		texts = append(texts, fmt.Sprintf("%s (%t)", name, g.known[name]))
	}
	return strings.Join(texts, ", ")
}

// String implements pflag.Value.
func (g *gateFlag) String() string { return "" }

// Type implements pflag.Value.
func (g *gateFlag) Type() string { return "gates" }

// Set implements pflag.Value.
func (g *gateFlag) Set(value string) error {
	for item := range strings.SplitSeq(value, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		name, text, _ := strings.Cut(item, "=")
		name = strings.TrimSpace(name)
		on, err := strconv.ParseBool(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("%q: must be a name, = and true or false", item)
		}
		if slices.Contains(g.removed, name) || slices.Contains(serverGates, name) {
			g.notices.add("--feature-gates="+name, "the gate does not exist any more, or is one of the API server's, and has no effect")
			continue
		}
		if _, ok := g.known[name]; !ok {
			return fmt.Errorf("unknown feature gate %q; there are %s", name, g.describe())
		}
		if g.on == nil {
			g.on = map[string]bool{}
		}
		g.on[name] = on
	}
	return nil
}

// goFlagRoles are the roles whose upstream programs parse their command line with Go's flag package: -name=x and --name=x are the same
// (AT-P1, RZ-P1).
var goFlagRoles = []string{"csi-resizer", "csi-attacher"}

// withTwoDashes turns long flags with one dash into those with two. "-v" and what is behind "--" stay.
func withTwoDashes(args []string) []string {
	out := slices.Clone(args)
	for i, arg := range out {
		if arg == "--" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && len(name) > 1 && !('0' <= name[0] && name[0] <= '9') {
			out[i] = "-" + arg
		}
	}
	return out
}
