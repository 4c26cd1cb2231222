package ui

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Texts have a contrast of 4.5 to 1, and parts of drawings and borders of fields one of 3 to 1, on
// both backgrounds (WCAG 2.2, 1.4.3 and 1.4.11).
func TestContrast(t *testing.T) {
	css := string(static("app.css"))
	light, dark, found := strings.Cut(css, "@media (prefers-color-scheme: dark)")
	if !found {
		t.Fatal("no dark colours")
	}
	light, _, _ = strings.Cut(light, "}")
	dark, _, _ = strings.Cut(dark, "}")
	for name, text := range map[string]string{"light": light, "dark": dark} {
		colours := coloursIn(t, text)
		for _, pair := range []struct {
			of, on string
			least  float64
		}{
			{"fg", "bg", 4.5},
			{"fg", "panel", 4.5},
			{"fg", "note", 4.5},
			{"fg", "del", 4.5},
			{"fg", "ins", 4.5},
			{"muted", "bg", 4.5},
			{"muted", "panel", 4.5},
			{"link", "bg", 4.5},
			{"link", "panel", 4.5},
			{"link", "note", 4.5},
			{"bad", "bg", 4.5},
			{"bad", "panel", 4.5},
			{"good", "bg", 4.5},
			{"edge", "bg", 3},
			{"edge", "panel", 3},
			{"working", "panel", 3},
			{"working", "bg", 3},
			{"waiting", "panel", 3},
			{"used", "panel", 3},
			{"unknown", "panel", 3},
			{"focus", "bg", 3},
			{"focus", "panel", 3},
			{"bad", "note", 3},
		} {
			if ratio := contrast(colours[pair.of], colours[pair.on]); ratio < pair.least {
				t.Errorf("%s: %s on %s has %.2f, less than %.1f", name, pair.of, pair.on, ratio, pair.least)
			}
		}
	}
}

func coloursIn(t *testing.T, css string) map[string]float64 {
	t.Helper()
	colours := map[string]float64{}
	for _, match := range regexp.MustCompile(`--([a-z]+): #([0-9a-f]{6});`).FindAllStringSubmatch(css, -1) {
		value, err := strconv.ParseUint(match[2], 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		linear := func(shift int) float64 {
			c := float64(value>>shift&0xff) / 255
			if c <= 0.04045 {
				return c / 12.92
			}
			return math.Pow((c+0.055)/1.055, 2.4)
		}
		colours[match[1]] = 0.2126*linear(16) + 0.7152*linear(8) + 0.0722*linear(0)
	}
	return colours
}

// contrast is the ratio of two relative luminances.
func contrast(a, b float64) float64 {
	return (max(a, b) + 0.05) / (min(a, b) + 0.05)
}
