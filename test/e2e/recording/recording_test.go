package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// What programs print becomes lines: with styles, whatever the chunks are, and with a line that is
// written again in its last form.
func TestScreen(t *testing.T) {
	const text = "$ a\r\n\x1b[32m✓\x1b[0m done\r\nwait 1\rwait 22\r\x1b[Kready\r\nrest"
	for size := 1; size <= len(text); size++ {
		var s screen
		for chunk := range slices.Chunk([]byte(text), size) {
			s.write(time.Second, string(chunk))
		}
		var got []string
		for _, l := range s.whole() {
			got = append(got, l.String())
		}
		if want := []string{"$ a", "✓ done", "ready"}; !slices.Equal(got, want) {
			t.Fatalf("in chunks of %d: %q", size, got)
		}
		if style := s.whole()[1].spans[0].style; style != "32" {
			t.Errorf("style %q", style)
		}
	}
}

// A line that is longer than the terminal is wide goes on in the next one, with its styles.
func TestWrap(t *testing.T) {
	l := line{time.Second, []span{{strings.Repeat("a", columns-1), "1"}, {"bcd", "32"}}}
	lines := l.wrap()
	if len(lines) != 2 || lines[0].String() != strings.Repeat("a", columns-1)+"b" || lines[1].String() != "cd" || lines[1].spans[0].style != "32" {
		t.Errorf("%+v", lines)
	}
	if empty := (line{}).wrap(); len(empty) != 1 {
		t.Errorf("an empty line becomes %+v", empty)
	}
}

// texts returns the lines of a picture.
func texts(t *testing.T, svg string) (all []string) {
	t.Helper()
	depth := 0
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local == "text" {
				all = append(all, "")
			}
			if token.Name.Local == "text" || token.Name.Local == "tspan" {
				depth++
			}
		case xml.EndElement:
			if token.Name.Local == "text" || token.Name.Local == "tspan" {
				depth--
			}
		case xml.CharData:
			if depth > 0 {
				all[len(all)-1] += string(token)
			}
		}
	}
}

// The picture has the text with its marks, and each line its time.
func TestDraw(t *testing.T) {
	svg := draw([]line{{time.Second, []span{{"$ a <b>", "1"}}}, {2500 * time.Millisecond, []span{{"plain", ""}}}})
	if got := texts(t, svg); !slices.Equal(got, []string{"$ a <b>", "plain"}) {
		t.Errorf("%q", got)
	}
	if !strings.Contains(svg, `animation-delay:2.5s`) || !strings.Contains(svg, "font-weight:bold") {
		t.Error(svg)
	}
}

// The picture of the pages has the commands of the session, each with an answer. TestReadmeSession of
// test/e2e compares its steps with those of `up`, and TestOutputs of test/quoted what explain says.
func TestPictureHasTheSession(t *testing.T) {
	svg, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "recording.svg"))
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, l := range texts(t, string(svg)) {
		if command, is := strings.CutPrefix(l, "$ "); is {
			commands = append(commands, command)
		}
	}
	if !slices.Equal(commands, session) {
		t.Errorf("docs/recording.svg has the commands %q, the session %q: run make recording", commands, session)
	}
}
