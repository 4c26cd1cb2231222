package roles

import (
	"io"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/roles/cli"
)

// The error for a mistake names the flag, the value and what is accepted.
func TestMistakes(t *testing.T) {
	for _, tc := range []struct {
		args string
		want string
	}{
		{"csi-provisioner --worker-threads=-1", `--worker-threads="-1": must be a whole number, from 1 to 10000`},
		{"csi-provisioner --timeout=abc", `--timeout="abc": must be a duration, such as`},
		{"csi-provisioner --enable-pprof=maybe", `--enable-pprof="maybe": must be true or false`},
		{"csi-provisioner --kube-api-qps=many", `--kube-api-qps="many": must be a number`},
		{"csi-provisioner --kube-api-qps=NaN", "--kube-api-qps=NaN: must be at most 1000000000"},
		{"csi-provisioner --kube-api-burst=1.5", `--kube-api-burst="1.5": must be a whole number`},
		{"csi-provisioner --http-endpoint=here", `--http-endpoint="here": must be HOST:PORT or :PORT`},
		{"csi-provisioner --metrics-address=:99999", `--metrics-address=":99999": "99999" is not a port; give a number from 0 to 65535`},
		{"controllers --http-endpoint=:99999", `--http-endpoint=":99999": "99999" is not a port`},
		{"csi-provisioner --min-volume-size=xfs", `--min-volume-size="xfs": `},
		{"up --http-endpoint=[::1", `--http-endpoint="[::1": must be`},
	} {
		err := Execute(t.Context(), cli.Program{Name: "purser", Args: strings.Fields(tc.args), Out: io.Discard, Err: io.Discard})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("purser %s: %v, want %q", tc.args, err, tc.want)
		}
	}
}

// CL-9: the logging flags are validated with the others, and each mistake names its flag.
func TestMistakesInLoggingFlags(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"--logging-format=poem", `--logging-format="poem": Unsupported log format`},
		{"--logging-format=json --vmodule=a=1", "--vmodule: Only supported for text log format"},
		{"--log-flush-frequency=-1s", "--log-flush-frequency=-1s: must be more than 0 and at most 8760h"},
		{"--log-text-split-stream", "--log-text-split-stream: Feature LoggingAlphaOptions is disabled"},
	} {
		for _, role := range []string{"csi-provisioner", "controllers", "driver", "plane"} {
			args := append([]string{role, "--http-endpoint=here"}, strings.Fields(tc.args)...)
			err := Execute(t.Context(), cli.Program{Name: "purser", Args: args, Out: io.Discard, Err: io.Discard})
			if err == nil || ExitCode(err) != 1 || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "--http-endpoint=") {
				t.Errorf("%s %s: %v, want %q", role, tc.args, err, tc.want)
			}
		}
	}
}

// CL-9, CL-2: one error has all mistakes: values that cannot be parsed and values that are refused.
// The exit code is that of the values that cannot be parsed.
func TestMistakesAreReportedTogether(t *testing.T) {
	args := []string{"csi-provisioner", "--timeout=abc", "--worker-threads=x", "--csi-address=relative", "--http-endpoint=:8080", "--metrics-path=metrics"}
	err := Execute(t.Context(), cli.Program{Name: "purser", Args: args, Out: io.Discard, Err: io.Discard})
	if err == nil || ExitCode(err) != 2 {
		t.Fatalf("%v, exit code %d", err, ExitCode(err))
	}
	if n := strings.Count(err.Error(), "--timeout"); n != 1 {
		t.Errorf("--timeout is reported %d times: %v", n, err)
	}
	for _, want := range []string{"--timeout=", "--worker-threads=", "--csi-address", "--metrics-path="} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}
