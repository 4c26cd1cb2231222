package driver

import (
	"strings"
	"testing"
)

func TestZonesFlag(t *testing.T) {
	for _, tc := range []struct{ value, want, err string }{
		{"a,b=10Gi,c", "a,b=10Gi,c", ""},
		{"a=1073741824", "a=1Gi", ""},
		{"a,", "", "no name"},
		{"a,a", "", "given twice"},
		{"a=0", "", "above 0"},
		{"a=big", "", "above 0"},
	} {
		var z Zones
		err := z.Set(tc.value)
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%q: %v, want %q", tc.value, err, tc.err)
		}
		if err == nil && z.String() != tc.want {
			t.Errorf("%q: %s, want %s", tc.value, z.String(), tc.want)
		}
	}
}
