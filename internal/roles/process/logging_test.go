package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"github.com/purser-csi/purser/internal/printable"
)

// Neither format of the logs passes on what a terminal acts on. The text format writes a value of
// several lines as it is.
func TestLogsArePrintable(t *testing.T) {
	const hostile = "driver says\n\x1b]0;owned\x07\u202e \x7f\u0085"
	gate := featuregate.NewFeatureGate()
	if err := logsapi.AddFeatureGates(gate); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = logsapi.ResetForTest(gate) }()
	for _, format := range []string{logsapi.DefaultLogFormat, logsapi.JSONLogFormat} {
		if err := logsapi.ResetForTest(gate); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		cfg := logsapi.NewLoggingConfiguration()
		cfg.Format = format
		streams := &logsapi.LoggingOptions{ErrorStream: logStream{&out, format}, InfoStream: logStream{&out, format}}
		if err := logsapi.ValidateAndApplyWithOptions(cfg, streams, gate); err != nil {
			t.Fatal(err)
		}
		klog.Background().Error(errors.New(hostile), "call failed", "claim", hostile)
		klog.Flush()
		if text := out.String(); text == "" || printable.Text(text) != text {
			t.Errorf("%s: the log has %q", format, text)
		}
		if format == logsapi.JSONLogFormat {
			var entry struct{ Err, Claim string }
			if err := json.Unmarshal(out.Bytes(), &entry); err != nil || entry.Claim != hostile || entry.Err != hostile {
				t.Errorf("%s decodes to %q, %v", out.String(), entry, err)
			}
		}
	}
}
