package intent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Kept says when somebody kept a page last, and which of its entries nobody had kept for long
// before that. Those are told from others for as long as no call for them begins, since whoever
// takes the page over next must know them too, and from what comes onto the page beside them.
type Kept struct {
	Last  time.Time // zero when nobody knows
	Stale []types.UID
}

// Text is what [ParseKept] reads: a time, and uids.
func (k Kept) Text() string {
	words := []string{k.Last.UTC().Format(time.RFC3339Nano)}
	for _, uid := range k.Stale {
		words = append(words, string(uid))
	}
	return strings.Join(words, " ")
}

// ParseKept reads a text.
func ParseKept(text string) (Kept, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return Kept{}, fmt.Errorf("%q is not a time and uids", text)
	}
	last, err := time.Parse(time.RFC3339Nano, words[0])
	if err != nil {
		return Kept{}, fmt.Errorf("%q is not a time and uids: %w", text, err)
	}
	k := Kept{Last: last}
	for _, uid := range words[1:] {
		k.Stale = append(k.Stale, types.UID(uid))
	}
	return k, nil
}

// Tell sets for how long nobody has kept each of the entries of the page.
func (k Kept) Tell(entries []Entry, now time.Time) {
	unattended := now.Sub(k.Last)
	for i := range entries {
		entries[i].Unattended = unattended
		if slices.Contains(k.Stale, entries[i].UID) {
			entries[i].Unattended = max(unattended, MostUnattended+1)
		}
	}
}

// StaleOf are the uids of the stale ones among entries.
func StaleOf(entries []Entry) (stale []types.UID) {
	for _, e := range entries {
		if e.IsStale() {
			stale = append(stale, e.UID)
		}
	}
	return stale
}
