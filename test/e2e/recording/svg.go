package main

import (
	"encoding/xml"
	"fmt"
	"strings"
	"time"
)

// The size of a character and the space around the text, in pixels.
const (
	charWidth  = 8.4
	lineHeight = 19
	margin     = 16
)

// styles are colours that can be read on the dark ground, by the parameters of SGR.
var styles = map[string]string{
	"1": "font-weight:bold", "2": "opacity:.7", "31": "fill:#ff8a80", "32": "fill:#8fd694", "33": "fill:#ffd479",
	"34": "fill:#82b1ff", "36": "fill:#80deea",
}

// draw returns the picture. Each line is there from the start for a viewer that does not animate, or
// for a user who has motion switched off.
func draw(lines []line) string {
	var b strings.Builder
	width, height := int(columns*charWidth)+2*margin, len(lines)*lineHeight+2*margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" `,
		width, height, width, height)
	b.WriteString("role=\"img\" aria-labelledby=\"t\">\n")
	b.WriteString(`<title id="t">purser up starts a cluster, and purser explain says why a claim is stuck</title>` + "\n")
	b.WriteString(`<style>
text { font: 14px ui-monospace, Menlo, Consolas, monospace; fill: #e6e6e6; white-space: pre; }
@media (prefers-reduced-motion: no-preference) { .l { animation: show .05s both; } }
@keyframes show { from { opacity: 0; } }
</style>
`)
	fmt.Fprintf(&b, "<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#1e1e24\"/>\n", width, height)
	for i, l := range lines {
		fmt.Fprintf(&b, `<text class="l" x="%d" y="%d" style="animation-delay:%.1fs" xml:space="preserve">`,
			margin, margin+(i+1)*lineHeight-5, l.at.Round(100*time.Millisecond).Seconds())
		for _, s := range l.spans {
			b.WriteString(s.draw())
		}
		b.WriteString("</text>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (s span) draw() string {
	var text strings.Builder
	_ = xml.EscapeText(&text, []byte(s.text)) // a strings.Builder takes everything
	var css []string
	for parameter := range strings.SplitSeq(s.style, ";") {
		if style := styles[parameter]; style != "" {
			css = append(css, style)
		}
	}
	if len(css) == 0 {
		return text.String()
	}
	return fmt.Sprintf(`<tspan style="%s">%s</tspan>`, strings.Join(css, ";"), &text)
}
