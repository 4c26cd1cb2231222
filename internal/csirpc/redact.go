package csirpc

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kubernetes-csi/csi-lib-utils/protosanitizer"

	"github.com/purser-csi/purser/internal/printable"
)

// Redact removes secret values from the text of a driver's error, before it goes into events, logs
// and errors. Drivers pass on what their backend's tools print, and some of those print their
// arguments (R-59, U-48).
//
// Redact searches for each value as it is, quoted, in JSON, in a URL, in base64, and line by line,
// since keys have several lines. Of a line "name=value" it also searches for the value alone. Values
// shorter than [leastSecret] stay: they are no secrets, and the message would lose every "1" and
// "true".
func Redact(message string, secrets map[string]string) string {
	var forms []string
	for _, value := range secrets {
		forms = append(forms, formsOf(value)...)
	}
	// A longer form may contain a shorter one, and must go first.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	for _, form := range forms {
		message = strings.ReplaceAll(message, form, redacted)
	}
	return clip(message)
}

// inText returns a driver's message as events, conditions, annotations and logs have it. The secrets
// are looked for first, since an escape in one would hide it.
func inText(message string, secrets map[string]string) string {
	return printable.Text(Redact(message, secrets))
}

// maxText bounds a message of a driver, and a request or response in the log: each can have
// megabytes. It is applied after the redaction, which must see whole secrets.
const maxText = 4 << 10

func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s... (%d bytes more)", text[:end], len(text)-end)
}

// stripped is a message without its secrets, for the log. The text is computed only when it is
// written.
type stripped struct{ message any }

// String implements fmt.Stringer.
func (s stripped) String() string { return clip(protosanitizer.StripSecrets(s.message).String()) }

const (
	redacted    = "[redacted]"
	leastSecret = 4
	leastLine   = 8
)

// formsOf returns the forms in which a value, or a part of it that is a secret by itself, may stand
// in a message.
func formsOf(value string) []string {
	var forms []string
	add := func(least int, text string) {
		if len(text) >= least {
			forms = append(forms, encodings(text)...)
		}
	}
	trimmed := strings.TrimSpace(value)
	add(leastSecret, value)
	add(leastSecret, trimmed)
	if lines := strings.Split(trimmed, "\n"); len(lines) > 1 {
		for _, line := range lines {
			add(leastLine, strings.TrimSpace(line))
			add(leastLine, setBy(line))
		}
	}
	return forms
}

// encodings returns a text as it is, and as programs write it into messages.
func encodings(text string) []string {
	quoted := strconv.Quote(text)
	return []string{
		text, quoted[1 : len(quoted)-1], inJSON(text, true), inJSON(text, false),
		base64.StdEncoding.EncodeToString([]byte(text)), base64.RawURLEncoding.EncodeToString([]byte(text)),
		url.QueryEscape(text), url.PathEscape(text),
	}
}

// inJSON returns a text in JSON without the quotes around it. JSON has two forms of the characters
// <, > and &: encoders may escape them for browsers.
func inJSON(text string, escapeHTML bool) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(escapeHTML)
	if err := encoder.Encode(text); err != nil {
		return text
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(out.String()), `"`), `"`)
}

// setBy returns the value in a line of a settings file, such as `key = value`; empty for a line of
// another kind.
func setBy(line string) string {
	if i := strings.IndexAny(line, "=:"); i >= 0 {
		return strings.Trim(line[i+1:], " \t\r\"',;")
	}
	return ""
}
