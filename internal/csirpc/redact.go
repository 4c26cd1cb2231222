package csirpc

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

// Redact takes secret values out of what a driver said, where they would go into events, logs and errors. Drivers hand on what
// their backend's tools print, and some of those print their arguments (R-59, U-48).
//
// A value is looked for as it is, quoted, in base64, and line by line, since keys come in several. What is shorter than
// [leastSecret] stays: it is no secret, and the message would lose every "1" and "true".
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
	return message
}

const (
	redacted    = "[redacted]"
	leastSecret = 4
	leastLine   = 8
)

func formsOf(value string) []string {
	var forms []string
	add := func(least int, form string) {
		if len(form) >= least {
			forms = append(forms, form)
		}
	}
	trimmed := strings.TrimSpace(value)
	for _, v := range []string{value, trimmed} {
		if len(v) < leastSecret {
			continue
		}
		quoted := strconv.Quote(v)
		add(leastSecret, v)
		add(leastSecret, quoted[1:len(quoted)-1])
		add(leastSecret, base64.StdEncoding.EncodeToString([]byte(v)))
		add(leastSecret, base64.RawURLEncoding.EncodeToString([]byte(v)))
	}
	if lines := strings.Split(trimmed, "\n"); len(lines) > 1 {
		for _, line := range lines {
			add(leastLine, strings.TrimSpace(line))
		}
	}
	return forms
}
