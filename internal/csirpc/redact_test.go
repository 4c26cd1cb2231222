package csirpc

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestRedact(t *testing.T) {
	for _, tc := range []struct {
		row     string
		message string
		secrets map[string]string
		want    string
	}{
		{"no secrets", "all is said", nil, "all is said"},
		{"R-59 as it is", "login with hunter2 failed", map[string]string{"key": "hunter2"}, "login with [redacted] failed"},
		{"R-59 with a line end", "login with hunter2 failed", map[string]string{"key": "hunter2\n"}, "login with [redacted] failed"},
		{"R-59 twice", "hunter2 hunter2", map[string]string{"key": "hunter2"}, "[redacted] [redacted]"},
		{"R-59 quoted", `key "hunter\"2"`, map[string]string{"key": `hunter"2`}, `key "[redacted]"`},
		{"R-59 base64", "data aHVudGVyMg==", map[string]string{"key": "hunter2"}, "data [redacted]"},
		{"R-59 a line of a key file", "bad line MIIEvQIBADANBg here", map[string]string{"pem": "-----BEGIN\nMIIEvQIBADANBg\n-----END"}, "bad line [redacted] here"},
		{"R-59 in JSON, for browsers", `{"key":"hunter\u00262\u003c"}`, map[string]string{"key": "hunter&2<"}, `{"key":"[redacted]"}`},
		{"R-59 in JSON, plain", "{\"key\":\"hun\\u0001ter&2<\"}", map[string]string{"key": "hun\x01ter&2<"}, `{"key":"[redacted]"}`},
		{"R-59 in a query", "GET /login?key=hunter%262+x%2F failed", map[string]string{"key": "hunter&2 x/"}, "GET /login?key=[redacted] failed"},
		{"R-59 in a path", "GET /login/hunter&2%20x%2F failed", map[string]string{"key": "hunter&2 x/"}, "GET /login/[redacted] failed"},
		{"R-59 a line of a key file, quoted", `bad "MIIE\"QIBADANBg"`, map[string]string{"pem": "-----BEGIN\nMIIE\"QIBADANBg\n-----END"}, `bad "[redacted]"`},
		{"R-59 what a line sets", "key AQDxhunter2== is bad", map[string]string{"ring": "[client.admin]\n\tkey = AQDxhunter2==\n"}, "key [redacted] is bad"},
		{"R-59 what a line sets, quoted there", "no hunter2-hunter2 here", map[string]string{"yaml": "user: x\npassword: \"hunter2-hunter2\",\n"}, "no [redacted] here"},
		{"R-59 what a line sets is too short to be one", "pool of 10 and ssd", map[string]string{"conf": "pool = ssd\nsize: 10\n"}, "pool of 10 and ssd"},
		{"R-59 one value in another", "hunter22", map[string]string{"a": "hunter2", "b": "hunter22"}, "[redacted]"},
		{"too short to be one", "10 of 100 are true", map[string]string{"a": "1", "b": "0", "c": ""}, "10 of 100 are true"},
	} {
		t.Run(tc.row, func(t *testing.T) {
			if got := Redact(tc.message, tc.secrets); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// EV-2: the message of a gRPC error is the one of gRPC; another error keeps its own message.
func TestWords(t *testing.T) {
	secrets := map[string]string{"key": "hunter2"}
	for want, err := range map[string]error{
		"rpc error: code = ResourceExhausted desc = no [redacted]": status.Error(codes.ResourceExhausted, "no hunter2"),
		"no [redacted]": errors.New("no hunter2"),
	} {
		if got := failed(StepSent, err, secrets).Words(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The text of a failed call has no character that a terminal acts on, and none of them hides a secret.
func TestWordsArePrintable(t *testing.T) {
	err := status.Error(codes.Internal, "\x1b]0;owned\x07 key hun\x1bter2 \u202e")
	const want = `rpc error: code = Internal desc = \x1b]0;owned\a key [redacted] \u202e`
	if got := failed(StepSent, err, map[string]string{"key": "hun\x1bter2"}).Words(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
