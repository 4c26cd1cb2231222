package driver

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/purser-csi/purser/internal/driver/records"
	"github.com/purser-csi/purser/internal/size"
)

// Zones is the value of a flag with names of zones, each with or without a size.
type Zones []records.Zone

var _ pflag.Value = (*Zones)(nil)

// Set implements pflag.Value. The flag may be given more than once.
func (z *Zones) Set(value string) error {
	for item := range strings.SplitSeq(value, ",") {
		name, text, sized := strings.Cut(item, "=")
		one := records.Zone{Name: name}
		if sized {
			quantity, err := resource.ParseQuantity(text)
			if err != nil || quantity.Sign() <= 0 {
				return fmt.Errorf("%q: the size must be above 0, such as %s=10Gi", item, name)
			}
			bytes, problem := size.Bytes(quantity)
			if problem != nil {
				return fmt.Errorf("%q: %s", item, problem.Message)
			}
			one.Bytes = bytes
		}
		if name == "" {
			return errors.New("a zone has no name; give names such as a,b,c, each with a size where it has one: a=10Gi")
		}
		if slices.ContainsFunc(*z, func(other records.Zone) bool { return other.Name == name }) {
			return fmt.Errorf("zone %q is given twice", name)
		}
		*z = append(*z, one)
	}
	return nil
}

// String implements pflag.Value.
func (z *Zones) String() string {
	if z == nil {
		return ""
	}
	items := make([]string, 0, len(*z))
	for _, one := range *z {
		item := one.Name
		if one.Bytes > 0 {
			bytes := size.Quantity(one.Bytes)
			item += "=" + bytes.String()
		}
		items = append(items, item)
	}
	return strings.Join(items, ",")
}

// Type implements pflag.Value.
func (*Zones) Type() string { return "zones" }
