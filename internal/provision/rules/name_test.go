package provision

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
)

func named(namespace, name string) Key {
	return Key{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}, UID: uid}
}

// R-1, P-1, H-11, U-53: one name, from the key of the claim alone.
func TestVolumeName(t *testing.T) {
	long := strings.Repeat("l", 200)
	for _, tc := range []struct {
		row  string
		key  Key
		o    Options
		want string
	}{
		{"R-1 the default", named("crew", "log"), Options{NamePrefix: "pvc", NameUUIDLength: -1}, pvName},
		{"R-1 short", named("crew", "log"), Options{NamePrefix: "vol", NameUUIDLength: 10}, "vol-0a1b2c3d00"},
		{"U-53 all of it", named("crew", "log"), Options{NameTemplate: "${pvc.namespace}-${pvc.name}.${pvc.uid}", NameUUIDLength: -1}, "crew-log." + string(uid)},
		{"U-53 a short uid", named("crew", "log"), Options{NameTemplate: "${pvc.name}-${pvc.uid}", NameUUIDLength: 8}, "log-0a1b2c3d"},
		{"U-53 a long name is cut", named("crew", long), Options{NameTemplate: "${pvc.namespace}-${pvc.name}-${pvc.uid}", NameUUIDLength: 8}, "crew-" + long[:114] + "-0a1b2c3d"},
		{"U-53 where it may end", named("crew", long[:112]+"-.x"), Options{NameTemplate: "${pvc.namespace}-${pvc.name}-${pvc.uid}", NameUUIDLength: 8}, "crew-" + long[:112] + "-0a1b2c3d"},
		{"U-53 then its namespace", named(long[:63], long), Options{NameTemplate: strings.Repeat("x", 70) + "${pvc.namespace}-${pvc.name}-${pvc.uid}", NameUUIDLength: 8}, strings.Repeat("x", 70) + long[:47] + "-l-0a1b2c3d"},
		{"U-53 what a claim is called does not matter", named("crew", "${pvc.uid}"), Options{NameTemplate: "${pvc.name}-${pvc.uid}", NameUUIDLength: 8}, "${pvc.uid}-0a1b2c3d"},
	} {
		if got := VolumeName(tc.key, tc.o); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.row, got, tc.want)
		}
	}
}

// U-53: whatever a claim is called, the name is one that a PersistentVolume may have, and has the
// whole uid.
func TestVolumeNameIsAName(t *testing.T) {
	label := rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		key := named(label.Draw(t, "namespace"), strings.Join(rapid.SliceOfN(label, 1, 4).Draw(t, "name"), "."))
		name := VolumeName(key, Options{NameTemplate: "x-${pvc.namespace}.${pvc.name}-${pvc.uid}", NameUUIDLength: -1})
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 || len(name) > MaxVolumeName || !strings.HasSuffix(name, "-"+string(uid)) {
			t.Fatalf("%q: %v", name, problems)
		}
	})
}
