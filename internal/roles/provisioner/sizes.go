package provisioner

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/purser-csi/purser/internal/size"
)

// sizes is the value of --min-volume-size: bytes by filesystem (O-30).
type sizes struct{ bytes *map[string]int64 }

// Set implements pflag.Value. The flag may be given more than once.
func (s sizes) Set(value string) error {
	for item := range strings.SplitSeq(value, ",") {
		fsType, text, found := strings.Cut(item, "=")
		quantity, err := resource.ParseQuantity(text)
		if !found || fsType == "" || err != nil || quantity.Sign() <= 0 {
			return fmt.Errorf("%q: must be a filesystem, = and a size, such as xfs=300Mi", item)
		}
		bytes, problem := size.Bytes(quantity)
		if problem != nil {
			return fmt.Errorf("%q: %s", item, problem.Message)
		}
		if *s.bytes == nil {
			*s.bytes = map[string]int64{}
		}
		(*s.bytes)[strings.ToLower(fsType)] = bytes // lookups are in lower case
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
		least := size.Quantity((*s.bytes)[fsType])
		items = append(items, fsType+"="+least.String())
	}
	return strings.Join(items, ",")
}

// Type implements pflag.Value.
func (sizes) Type() string { return "sizes" }
