package ui

import (
	"fmt"
	"net/url"
	"strings"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// kindByWord are the kinds that have a page, by the word for them in an address.
var kindByWord = func() map[string]explain.Kind {
	words := map[string]explain.Kind{}
	for _, kind := range explain.Explainable {
		words[kind.Short()] = kind
	}
	return words
}()

// hasPage reports whether an object of the kind has a page.
func hasPage(kind explain.Kind) bool {
	_, has := kindByWord[kind.Short()]
	return has
}

// refOf reads the object of an address.
func refOf(query url.Values) (explain.Ref, error) {
	kind, known := kindByWord[query.Get("kind")]
	ref := explain.Ref{Kind: kind, Namespace: query.Get("namespace"), Name: query.Get("name")}
	switch {
	case !known:
		return ref, fmt.Errorf("kind=%q: expected a kind such as pvc, pv or pod", query.Get("kind"))
	case ref.Name == "":
		return ref, fmt.Errorf("name=: expected the name of a %s", kind)
	}
	return ref, nil
}

// addressOf returns the address of an object's page, relative to the other pages.
func addressOf(ref explain.Ref) string {
	query := "kind=" + url.QueryEscape(ref.Kind.Short())
	if ref.Namespace != "" {
		query += "&namespace=" + url.QueryEscape(ref.Namespace)
	}
	return "life?" + query + "&name=" + url.QueryEscape(ref.Name)
}

// idOf returns a text for the attribute id that is the same for the same parts.
func idOf(parts ...string) string {
	var id strings.Builder
	for i, part := range parts {
		if i > 0 {
			id.WriteByte('-')
		}
		for _, r := range strings.ToLower(part) {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				id.WriteRune(r)
			} else {
				fmt.Fprintf(&id, "_%x", r)
			}
		}
	}
	return id.String()
}
