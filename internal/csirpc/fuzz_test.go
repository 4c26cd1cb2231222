package csirpc

import (
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// FuzzDescribe: whatever bytes a driver answers with, it is described or refused, and nothing
// panics (section 15.5 number 7).
func FuzzDescribe(f *testing.F) {
	whole := ready()
	for _, m := range []proto.Message{whole.info, whole.plugin, whole.controller} {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, raw, raw)
	}
	info, _ := proto.Marshal(whole.info)
	plugin, _ := proto.Marshal(whole.plugin)
	f.Add(info, plugin, []byte{0x0a, 0x00, 0x0a, 0x02, 0x0a, 0x00}) // capabilities without a type
	f.Add([]byte{}, []byte{}, []byte{})
	d := ready()
	conn := dial(f, d, 10*time.Second)
	f.Fuzz(func(t *testing.T, info, plugin, controller []byte) {
		d.info, d.plugin, d.controller = &csi.GetPluginInfoResponse{}, &csi.GetPluginCapabilitiesResponse{}, &csi.ControllerGetCapabilitiesResponse{}
		for raw, m := range map[*[]byte]proto.Message{&info: d.info, &plugin: d.plugin, &controller: d.controller} {
			if proto.Unmarshal(*raw, m) != nil {
				return // not an answer
			}
		}
		got, err := conn.Describe(t.Context())
		switch {
		case err == nil && (got.Name == "" || got.Plugin == nil || got.Controller == nil):
			t.Errorf("described as %+v", got)
		case err == nil && got.Name != d.info.GetName():
			t.Errorf("named %q, says %q", got.Name, d.info.GetName())
		}
		got.HasTopology()
	})
}

// FuzzRedact: a driver's message has no secret after the redaction, at any position.
func FuzzRedact(f *testing.F) {
	f.Add("login with ", "hunter2", " failed", "other")
	f.Add("", "a\nlong line of a key\n", "", "long line")
	f.Add(`"`, `quo"ted`, `"`, "")
	f.Fuzz(func(t *testing.T, before, secret, after, other string) {
		got := Redact(before+secret+after, map[string]string{"a": secret, "b": other})
		if len(secret) < leastSecret || strings.ContainsAny(secret, "[]") || strings.Contains(redacted, secret) {
			return // too short to be one, or the mark itself may spell it
		}
		if strings.Contains(got, secret) {
			t.Errorf("%q is in %q", secret, got)
		}
	})
}

// FuzzFailure: an error of a call has the code and the text of its status, and is an answer.
func FuzzFailure(f *testing.F) {
	for code := range uint32(20) {
		f.Add(code+1, "words")
	}
	f.Fuzz(func(t *testing.T, code uint32, words string) {
		if code == 0 {
			return
		}
		err := status.Error(codes.Code(code), words)
		got := failed(StepSent, err, nil)
		if uint32(got.Code) != code || got.Message != inText(words, nil) || got.NoAnswer {
			t.Errorf("%+v", got)
		}
	})
}
