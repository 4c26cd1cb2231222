// Package ui tests the pages of `purser ui` and `purser report` in a real Chromium: on `purser up`, on
// a dump, on a record and on a report file with the network off. It also makes the pictures of
// docs/ui.md (-update), and checks that the pages can be used by keyboard alone, at each width, and
// with the contrast, names and landmarks that WCAG AA asks for.
//
// The tests are skipped where there is no Chromium, with the reason.
package ui
