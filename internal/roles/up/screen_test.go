package up

import (
	"bytes"
	"testing"
	"time"

	"github.com/purser-csi/purser/internal/printable"
)

// The name and version of a driver, and errors, are written by other parties.
func TestScreenIsPrintable(t *testing.T) {
	const hostile = "driver\x1b[2J\u202e"
	var out bytes.Buffer
	s := newScreen(&out)
	s.step(hostile, time.Second)
	s.say("%s %s", s.paint(red, "x"), hostile)
	s.status(hostile)
	if text := out.String(); printable.Text(text) != text {
		t.Errorf("the screen shows %q", text)
	}
}
