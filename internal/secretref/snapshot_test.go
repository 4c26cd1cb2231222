package secretref

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
)

// SN-P2: both parameters or neither, and the tokens that each of them may use.
func TestSnapshotter(t *testing.T) {
	whole := SnapshotScope{Snapshot: types.NamespacedName{Namespace: "n", Name: "s"}, Content: "c"}
	for _, tc := range []struct {
		name, secret, namespace string
		scope                   SnapshotScope
		want                    string
		wrong                   bool
	}{
		{"none", "", "", whole, "/", false},
		{"plain", "x", "y", whole, "y/x", false},
		{"tokens", "${volumesnapshot.name}-${volumesnapshotcontent.name}", "${volumesnapshot.namespace}", whole, "n/s-c", false},
		{"half", "x", "", whole, "/", true},
		{"name in a namespace", "x", "${volumesnapshot.name}", whole, "/", true},
		{"token of a claim", "${pvc.name}", "y", whole, "/", true},
		{"snapshot where there is none", "${volumesnapshot.name}", "y", SnapshotScope{Content: "c"}, "/", true},
		{"no name for a namespace", "x", "A_", whole, "/", true},
	} {
		for kind, keys := range map[string][2]string{
			"take": {names.ParameterSnapshotterSecretName, names.ParameterSnapshotterSecretNamespace},
			"list": {names.ParameterSnapshotterListSecretName, names.ParameterSnapshotterListSecretNamespace},
		} {
			parameters := map[string]string{}
			if tc.secret != "" {
				parameters[keys[0]] = tc.secret
			}
			if tc.namespace != "" {
				parameters[keys[1]] = tc.namespace
			}
			resolve := Snapshotter
			if kind == "list" {
				resolve = SnapshotLister
			}
			got, problem := resolve(parameters, tc.scope)
			if (problem != nil) != tc.wrong || problem == nil && got.Namespace+"/"+got.Name != tc.want {
				t.Errorf("%s, %s: got %s, problem %v", tc.name, kind, got, problem)
			}
		}
	}
}
