package driver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/purser-csi/purser/internal/driver/backend"
)

// compare returns the differences between an existing volume and a request with its name
// ("CreateVolume Errors": volume already exists but is incompatible). It is pure.
func compare(have backend.Volume, want backend.Request) (differences []string) {
	if have.Name != want.Name {
		differences = append(differences, fmt.Sprintf("its name is %q", have.Name))
	}
	if !want.Size.Contains(have.CapacityBytes) {
		differences = append(
			differences,
			fmt.Sprintf("it has %d bytes, %s wanted", have.CapacityBytes, describeRange(want.Size)),
		)
	}
	if got, asked := modes(have.Capabilities), modes(want.Capabilities); !slices.Equal(got, asked) {
		differences = append(differences, fmt.Sprintf("it has the capabilities %q, %q wanted", got, asked))
	}
	if !sameParameters(have.Parameters, want.Parameters) {
		differences = append(differences, fmt.Sprintf("it was made with %s, %s wanted",
			describeParameters(have.Parameters), describeParameters(want.Parameters)))
	}
	if have.Source != want.Source {
		differences = append(
			differences,
			fmt.Sprintf("it began with %s, %s wanted", describeSource(have.Source), describeSource(want.Source)),
		)
	}
	return differences
}

// modes makes capabilities comparable: their order and repetitions say
// nothing, and mount flags belong to a publication, not to the volume.
func modes(capabilities []backend.Capability) []string {
	texts := make([]string, 0, len(capabilities))
	for _, c := range capabilities {
		texts = append(texts, c.String())
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

func sameParameters(a, b map[string]string) bool { return maps.Equal(a, b) }

func describeParameters(parameters map[string]string) string {
	if len(parameters) == 0 {
		return "no parameters"
	}
	texts := make([]string, 0, len(parameters))
	for _, key := range slices.Sorted(maps.Keys(parameters)) {
		texts = append(texts, fmt.Sprintf("%s=%q", key, parameters[key]))
	}
	return strings.Join(texts, " ")
}

func describeRange(r backend.Range) string {
	switch {
	case r.Limit == 0:
		return fmt.Sprintf("at least %d", r.Required)
	case r.Required == 0:
		return fmt.Sprintf("at most %d", r.Limit)
	default:
		return fmt.Sprintf("%d to %d", r.Required, r.Limit)
	}
}

func describeSource(s backend.Source) string {
	switch {
	case s.Snapshot != backend.ID{}:
		return fmt.Sprintf("snapshot %q", s.Snapshot)
	case s.Volume != backend.ID{}:
		return fmt.Sprintf("the content of volume %q", s.Volume)
	default:
		return "nothing"
	}
}
