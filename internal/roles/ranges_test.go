package roles

import (
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/roles/cli"
)

const (
	noEffect    = "upstream's flag, which has no effect here"
	noLimit     = "F-49: upstream takes a negative rate for no limit"
	driverWill  = "the driver decides"
	asTimeout   = "the timeout of all calls counts"
	oneOfNodes  = "one node in each zone, and at least one"
	anyValue    = "*"
	neverAsked  = "never"
	asOthers    = "the number of workers counts"
	wholeUID    = "the whole uid"
	largestWhat = "the largest page that a driver can be asked for"
)

// accepted are the values -1, 0 and the largest of the type that a flag accepts, with the reason.
// Every numeric flag refuses the others.
var accepted = map[string]map[string]string{
	"resync":                         {anyValue: noEffect},
	"resync-period":                  {anyValue: noEffect},
	"volume-list-add-interval":       {anyValue: noEffect},
	"max-grpc-log-length":            {anyValue: noEffect},
	"retry-crd-interval-max":         {anyValue: noEffect},
	"kube-api-qps":                   {"-1": noLimit, "0": noLimit},
	"kube-api-capacity-qps":          {"-1": noLimit, "0": noLimit},
	"kube-api-burst":                 {"0": "twice the rate", "2147483647": "without a bound of the burst"},
	"kube-api-capacity-burst":        {"0": "a burst of one"},
	"reconcile-sync":                 {"0": neverAsked},
	"max-entries":                    {"0": driverWill, "2147483647": largestWhat},
	"create-timeout":                 {"0": asTimeout},
	"delete-timeout":                 {"0": asTimeout},
	"resize-timeout":                 {"0": asTimeout},
	"modify-timeout":                 {"0": asTimeout},
	"volume-name-uuid-length":        {"-1": wholeUID},
	"snapshot-name-uuid-length":      {"-1": wholeUID},
	"groupsnapshot-name-uuid-length": {"-1": wholeUID},
	"orphan-audit-interval":          {"0": neverAsked},
	"max-topology-terms":             {"0": "without a bound", "2147483647": "without a bound"},
	"delete-worker-threads":          {"0": asOthers},
	"cloning-protection-threads":     {"0": asOthers},
	"snapshot-orphan-sweep-interval": {"0": "F-8: off but for one sweep at the start"},
	"capacity-max-age":               {"0": "as upstream, the last capacity stays"},
	"capacity-ownerref-level":        {"-1": "no owner", "0": "the pod"},
	"node-deployment-base-delay":     {"0": "no delay"},
	"node-deployment-max-delay":      {"0": "no delay"},
	"nodes":                          {"0": oneOfNodes},
	"volume-stats-agg-period":        {"-1": "as a kubelet, never", "0": "as a kubelet, never"},
	"port":                           {"0": "CB-3: any free one"},
	"max-streaming-duration-min":     {"-1": "CB-6: the default", "0": "CB-6: the default"},
	"v":                              {"0": "the fewest lines", "2147483647": "every line"},
	"loopfile-max-volumes":           {"2147483647": "as many as the kernel has loop devices for"},
}

// A numeric flag refuses a value without a meaning and says which it accepts: all flags of all roles.
func TestRangesOfNumericFlags(t *testing.T) {
	t.Setenv("POD_NAME", "p")
	seen := map[string]bool{}
	for _, c := range newRoot(cli.Program{Out: io.Discard, Err: io.Discard}).Commands() {
		if c.Flags().Lookup("http-endpoint") == nil {
			continue // no role
		}
		c.Flags().VisitAll(func(flag *pflag.Flag) {
			values := extremes(flag)
			if len(values) == 0 || cli.MarkOf(flag) == cli.MarkDeprecated {
				return
			}
			seen[flag.Name] = true
			for _, value := range values {
				checkExtreme(t, c, flag.Name, value)
			}
		})
	}
	for name := range accepted {
		if !seen[name] {
			t.Errorf("the table has --%s, which no role has", name)
		}
	}
	if len(seen) < 35 {
		t.Errorf("only %d numeric flags were found: %v", len(seen), seen)
	}
}

// extremes returns the values with which a numeric flag is tried; none for other flags.
func extremes(flag *pflag.Flag) []string {
	switch flag.Value.Type() {
	case "uint":
		return []string{"-1", "0", strconv.FormatUint(math.MaxUint64, 10), "1" + strings.Repeat("0", 30)}
	case "int", "int32", "int64":
		return []string{"-1", "0", strconv.Itoa(math.MaxInt32), strconv.Itoa(math.MaxInt64), "1" + strings.Repeat("0", 30)}
	case "float32", "float64":
		return []string{"-1", "0", "3e38", "+Inf", "NaN"}
	case "duration":
		return []string{"-1s", "0s", time.Duration(math.MaxInt64).String(), "99999999h"}
	case "Level":
		return []string{"-1", "0", strconv.Itoa(math.MaxInt32), "1" + strings.Repeat("0", 30)}
	}
	return nil
}

func checkExtreme(t *testing.T, c *cobra.Command, flag, value string) {
	t.Helper()
	args := []string{c.Name(), "--" + flag + "=" + value, "--http-endpoint=here"} // the role does not start
	for _, on := range []string{"leader-election", "enable-capacity", "node-deployment"} {
		if c.Flags().Lookup(on) != nil {
			args = append(args, "--"+on)
		}
	}
	if c.Flags().Lookup("purser-reap-removed-nodes") != nil {
		args = append(args, "--purser-reap-removed-nodes=driver")
	}
	plain := withoutComponent(flag)
	if plain == "node-deployment-max-delay" {
		args = append(args, "--node-deployment-base-delay=0s")
	}
	err := Execute(t.Context(), cli.Program{Name: "purser", Args: args, Out: io.Discard, Err: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "--http-endpoint=") {
		t.Fatalf("purser %s: %v", strings.Join(args, " "), err)
	}
	reasons := accepted[plain]
	_, any := reasons[anyValue]
	_, this := reasons[strings.TrimSuffix(value, "s")]
	var about []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if strings.HasPrefix(line, "--"+flag+"=") {
			about = append(about, line)
		}
	}
	switch {
	case this && len(about) > 0, any && len(about) > 0 && !strings.Contains(about[0], `="`):
		t.Errorf("%s --%s=%s: %q, although it means: %s%s", c.Name(), flag, value, about, reasons[value], reasons[anyValue])
	case this || any:
	case len(about) != 1:
		t.Errorf("%s --%s=%s: %q, want one refusal", c.Name(), flag, value, about)
	case !strings.Contains(about[0], "must be") || !strings.Contains(about[0], "at most") && !strings.Contains(about[0], " from "):
		t.Errorf("%s --%s=%s: %q does not have the allowed range", c.Name(), flag, value, about)
	}
}

// withoutComponent returns a flag of one component of `sidecars` as that component calls it.
func withoutComponent(flag string) string {
	for _, component := range []string{
		"provisioner-", "attacher-", "resizer-", "snapshotter-", "health-monitor-", "node-driver-registrar-", "livenessprobe-",
		"snapshot-metadata-",
	} {
		if plain, ok := strings.CutPrefix(flag, component); ok {
			return plain
		}
	}
	return flag
}
