package driver

import "testing"

// What the driver says at its start may quote a path or the output of a program.
func TestNoticesLoseControlCharacters(t *testing.T) {
	var got string
	d := &Driver{Notice: func(text string) { got = text }}
	d.notify("no loop devices: \x1b]0;title\a\x1b[2J")
	if want := `no loop devices: \x1b]0;title\a\x1b[2J`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	(&Driver{}).notify("nothing listens")
}
