package csirpc

import "testing"

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
