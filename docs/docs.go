// Package docs embeds the page of which the program shows parts.
package docs

import _ "embed"

// Reasons is the page about the reasons of decisions. Package verdict reads its sections.
//
//go:embed reasons.md
var Reasons string
