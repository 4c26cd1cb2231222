package provisioner

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// sizes is the value of --min-volume-size: bytes by filesystem (O-30).
type sizes struct{ bytes *map[string]int64 }

// Set implements pflag.Value. The flag may be given more than once.
func (s sizes) Set(value string) error {
	for item := range strings.SplitSeq(value, ",") {
		fsType, text, found := strings.Cut(item, "=")
		size, err := resource.ParseQuantity(text)
		if !found || fsType == "" || err != nil || size.Sign() <= 0 {
			return fmt.Errorf("%q: must be a filesystem, = and a size, such as xfs=300Mi", item)
		}
		if *s.bytes == nil {
			*s.bytes = map[string]int64{}
		}
		(*s.bytes)[strings.ToLower(fsType)] = size.Value() // lookups are in lower case
	}
	return nil
}

// String implements pflag.Value.
func (s sizes) String() string {
	if s.bytes == nil {
		return ""
	}
	var items []string
	for _, fsType := range slices.Sorted(maps.Keys(*s.bytes)) {
		items = append(items, fmt.Sprintf("%s=%s", fsType, resource.NewQuantity((*s.bytes)[fsType], resource.BinarySI)))
	}
	return strings.Join(items, ",")
}

// Type implements pflag.Value.
func (sizes) Type() string { return "sizes" }
