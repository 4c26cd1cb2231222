package up

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// The file has the addresses of this run alone, and there is none without --http-endpoint.
func TestTargets(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, targetsName)
	if err := os.WriteFile(file, []byte("of the last run"), 0o600); err != nil {
		t.Fatal(err)
	}
	var none targets
	if err := none.open(dir, ""); err != nil || none.endpoint("") != "" {
		t.Errorf("without an endpoint: %q, %v", none.endpoint(""), err)
	}
	none.note("node", "127.0.0.1:1")
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file of the last run: %v", err)
	}
	var all targets
	if err := all.open(dir, "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	if all.endpoint("127.0.0.1:1") != "127.0.0.1:1" || all.endpoint("") != anyPort {
		t.Errorf("%q, %q", all.endpoint("127.0.0.1:1"), all.endpoint(""))
	}
	all.note("driver", "127.0.0.1:2")
	all.listened("controllers")(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 3})
	const want = `[
  {
    "targets": [
      "127.0.0.1:3"
    ],
    "labels": {
      "role": "controllers"
    }
  },
  {
    "targets": [
      "127.0.0.1:2"
    ],
    "labels": {
      "role": "driver"
    }
  }
]
`
	if got, err := os.ReadFile(file); err != nil || string(got) != want || all.err() != nil {
		t.Errorf("%s, %v, %v", got, err, all.err())
	}
}
