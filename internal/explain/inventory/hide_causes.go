package inventory

import (
	"maps"
	"slices"
	"strings"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// publicCauses begin the causes of unread kinds that have no name in them.
var publicCauses = []string{
	"the permission to list ", "the API server does not serve them", "they are not needed ",
	"there are none in the dump",
}

// HideNamesAndCauses replaces names as [HideNames] does, and by the same words in the causes why
// kinds were not read, which it changes in place.
func HideNamesAndCauses[K ~string](items []map[string]any, unread ...map[K]string) []map[string]any {
	const field = "cause"
	count := len(items)
	for _, causes := range unread {
		for _, kind := range slices.Sorted(maps.Keys(causes)) {
			item := map[string]any{field: causes[kind]}
			if of, isOne := namespaceOf(causes[kind]); isOne {
				item["metadata"] = map[string]any{"namespace": of}
			} else if !isPublicCause(causes[kind]) {
				item[field] = "the cause has names"
			}
			items = append(items, item)
		}
	}
	items = HideNames(items)
	n := count
	for _, causes := range unread {
		for _, kind := range slices.Sorted(maps.Keys(causes)) {
			causes[kind], _ = items[n][field].(string)
			n++
		}
	}
	return items[:count:count]
}

// onlyInEnd ends the cause of a kind that was read in one namespace.
const onlyInEnd = " may be read"

// namespaceOf returns the namespace that a cause names as the only one.
func namespaceOf(cause string) (string, bool) {
	rest, begins := strings.CutPrefix(cause, explain.OnlyIn)
	namespace, ends := strings.CutSuffix(rest, onlyInEnd)
	isName := namespace != "" && !strings.ContainsFunc(namespace, func(r rune) bool { return !isOfName(r) })
	return namespace, begins && ends && isName
}

func isPublicCause(cause string) bool {
	return !strings.Contains(cause, ";") &&
		slices.ContainsFunc(publicCauses, func(begin string) bool { return strings.HasPrefix(cause, begin) })
}
