package ui

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// sentence begins a text with a capital letter, unless its first word is a name, and ends it with a
// full stop, unless it has an end of its own.
func sentence(text string) string {
	inner := strings.TrimRight(text, "”\"")
	if inner != "" && !strings.ContainsAny(inner[len(inner)-1:], ".?!") {
		text += "."
	}
	word, _, _ := strings.Cut(text, " ")
	if strings.ContainsFunc(strings.TrimRight(word, ".,;:?!"), func(r rune) bool { return !unicode.IsLower(r) }) {
		return text
	}
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + text[size:]
}

// who says which party has to act on a finding.
func who(f explain.Finding) string {
	if f.Actor != explain.Itself {
		return "The " + string(f.Actor)
	}
	if f.Until != nil {
		return "No one: it goes on by itself, by " + clock(*f.Until) + " at the latest"
	}
	return "No one: it goes on by itself"
}

// actorTitle is the heading of the causes of an actor.
func actorTitle(actor explain.Actor) string {
	if actor == explain.Itself {
		return "No one has to act"
	}
	return "The " + string(actor) + " has to act"
}

// counted returns a number with its noun.
func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", more)
}

// clock is a time to a second, in UTC.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// moment is a time to a millisecond, in UTC.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000Z") }

// age is the time since t in one or two units; "-" where t is not known.
func age(now time.Time, t *time.Time) string {
	if t == nil {
		return "-"
	}
	return duration.HumanDuration(now.Sub(*t))
}

// took returns a duration in about three digits.
func took(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + took(-d)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %02d h", int(d.Hours())/24, int(d.Hours())%24)
}

// sizeText returns a size in the largest binary unit that it has at least one of.
func sizeText(n int64) string {
	const step = 1024
	size, unit := float64(n), 0
	for size >= step && unit < len(units)-1 {
		size, unit = size/step, unit+1
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", size), ".0") + " " + units[unit]
}

var units = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
