package secretref

import (
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

const prefix = "csi.storage.k8s.io/"

var scope = Scope{
	VolumeName:  "pvc-1",
	Claim:       types.NamespacedName{Namespace: "crew", Name: "logbook"},
	Annotations: map[string]string{"example.com/key": "gold", "empty": "", "upper": "Gold", "it's": "quoted"},
}

type parameters = map[string]string

// own is the pair of parameters with the given stem.
func own(stem, name, namespace string) parameters {
	return parameters{prefix + stem + "-name": name, prefix + stem + "-namespace": namespace}
}

func old(stem, name, namespace string) parameters {
	return parameters{"csi" + stem + "SecretName": name, "csi" + stem + "SecretNamespace": namespace}
}

func both(all ...parameters) parameters {
	out := parameters{}
	for _, one := range all {
		maps.Copy(out, one)
	}
	return out
}

func TestResolve(t *testing.T) {
	fallback := own("secret", "default", "vault")
	for _, tc := range []struct {
		row  string
		kind Kind
		in   parameters
		want string // "namespace/name", empty for none
	}{
		{"R-40 provisioner", Provisioner, own("provisioner-secret", "s", "n"), "n/s"},
		{"R-40 provisioner, older keys", Provisioner, old("Provisioner", "s", "n"), "n/s"},
		{"R-41 controller publish", ControllerPublish, own("controller-publish-secret", "s", "n"), "n/s"},
		{"R-41 controller publish, older keys", ControllerPublish, old("ControllerPublish", "s", "n"), "n/s"},
		{"R-42 node stage", NodeStage, own("node-stage-secret", "s", "n"), "n/s"},
		{"R-42 node stage, older keys", NodeStage, old("NodeStage", "s", "n"), "n/s"},
		{"R-43 node publish", NodePublish, own("node-publish-secret", "s", "n"), "n/s"},
		{"R-43 node publish, older keys", NodePublish, old("NodePublish", "s", "n"), "n/s"},
		{"R-44 controller expand", ControllerExpand, own("controller-expand-secret", "s", "n"), "n/s"},
		{"R-44 controller expand has no older keys", ControllerExpand, old("ControllerExpand", "s", "n"), ""},
		{"R-45 node expand", NodeExpand, own("node-expand-secret", "s", "n"), "n/s"},
		{"R-46 controller modify", ControllerModify, own("controller-modify-secret", "s", "n"), "n/s"},
		{"R-47 no secret at all", Provisioner, nil, ""},
		{"R-47 default", NodeStage, fallback, "vault/default"},
		{"R-47 default for modify", ControllerModify, fallback, "vault/default"},
		{"R-47 own pair wins over the default", NodeStage, both(fallback, own("node-stage-secret", "s", "n")), "n/s"},
		{"R-47 older pair wins over the default", NodeStage, both(fallback, old("NodeStage", "s", "n")), "n/s"},
		{"R-47 another kind's pair is not a default", NodePublish, own("node-stage-secret", "s", "n"), ""},
		{"R-50 one half old, the other new", Provisioner, parameters{"csiProvisionerSecretName": "s", prefix + "provisioner-secret-namespace": "n"}, "n/s"},
		{"O-32 deletion", Deletion, both(fallback, own("provisioner-secret", "s", "n"), parameters{"purser/deletion-secret-name": "d", "purser/deletion-secret-namespace": "m"}), "m/d"},
		{"O-32 deletion without a pair of its own is the provisioner's", Deletion, both(fallback, own("provisioner-secret", "s", "n")), "n/s"},
		{"O-32 deletion without either is the default", Deletion, fallback, "vault/default"},
		{"R-52 namespace template ${pvc.namespace}", NodeStage, own("node-stage-secret", "s", "${pvc.namespace}"), "crew/s"},
		{"R-52 namespace template ${pv.name}", NodeStage, own("node-stage-secret", "s", "ns-${pv.name}"), "ns-pvc-1/s"},
		{"R-53 name template with every token", NodeStage, own("node-stage-secret", "${pv.name}.${pvc.namespace}.${pvc.name}.${pvc.annotations['example.com/key']}", "n"), "n/pvc-1.crew.logbook.gold"},
		{"R-53 annotation with a quote in its key", NodeStage, own("node-stage-secret", "${pvc.annotations['it's']}", "n"), "n/quoted"},
		{"R-53 annotation with an empty value", NodeStage, own("node-stage-secret", "x${pvc.annotations['empty']}", "n"), "n/x"},
		{"R-54 bad syntax disappears as with os.Expand", NodeStage, own("node-stage-secret", "a${}b", "n"), "n/ab"},
		{"R-56 pv.name has the prefix of the volume's name", Provisioner, own("provisioner-secret", "${pv.name}", "n"), "n/pvc-1"},
		{"R-53 a name may have dots, R-52 a namespace may not", NodeStage, own("node-stage-secret", "a.b", "n"), "n/a.b"},
	} {
		t.Run(tc.row, func(t *testing.T) {
			got, problem := Resolve(tc.kind, tc.in, scope)
			if problem != nil {
				t.Fatalf("%+v", *problem)
			}
			if text := strings.TrimPrefix(got.String(), "/"); text != tc.want {
				t.Errorf("got %q, want %q", text, tc.want)
			}
		})
	}
}

func TestResolveRefuses(t *testing.T) {
	stage := func(name, namespace string) parameters { return own("node-stage-secret", name, namespace) }
	for _, tc := range []struct {
		row       string
		in        parameters
		parameter string // that the problem is with
		text      string // part of what is said
	}{
		{"R-50 both names", both(stage("s", "n"), parameters{"csiNodeStageSecretName": "s"}), prefix + "node-stage-secret-name", "csiNodeStageSecretName"},
		{"R-50 both namespaces", both(stage("s", "n"), parameters{"csiNodeStageSecretNamespace": "n"}), prefix + "node-stage-secret-namespace", "csiNodeStageSecretNamespace"},
		{"R-50 comes before R-51", parameters{prefix + "node-stage-secret-name": "", "csiNodeStageSecretName": ""}, prefix + "node-stage-secret-name", "twice"},
		{"R-51 name alone", parameters{prefix + "node-stage-secret-name": "s"}, prefix + "node-stage-secret-name", "without " + prefix + "node-stage-secret-namespace"},
		{"R-51 namespace alone", parameters{prefix + "node-stage-secret-namespace": "n"}, prefix + "node-stage-secret-namespace", "without " + prefix + "node-stage-secret-name"},
		{"R-51 older name alone", parameters{"csiNodeStageSecretName": "s"}, "csiNodeStageSecretName", "without"},
		{"R-51 half a pair does not fall back to the default", both(own("secret", "d", "n"), parameters{prefix + "node-stage-secret-name": "s"}), prefix + "node-stage-secret-name", "without"},
		{"R-51 R-47 half a default pair", parameters{prefix + "secret-name": "s"}, prefix + "secret-name", "without"},
		{"R-51 empty name", stage("", "n"), prefix + "node-stage-secret-name", "is empty"},
		{"R-51 empty namespace", stage("s", ""), prefix + "node-stage-secret-namespace", "is empty"},
		{"R-51 both empty", stage("", ""), prefix + "node-stage-secret-name", "is empty"},
		{"R-52 no pvc.name in a namespace", stage("s", "${pvc.name}"), prefix + "node-stage-secret-namespace", `"pvc.name"`},
		{"R-52 no annotations in a namespace", stage("s", "${pvc.annotations['example.com/key']}"), prefix + "node-stage-secret-namespace", "example.com/key"},
		{"R-52 namespace is no label", stage("s", "a.b"), prefix + "node-stage-secret-namespace", `"a.b" is not a valid name of a namespace`},
		{"R-53 annotation that the claim does not have", stage("${pvc.annotations['none']}", "n"), prefix + "node-stage-secret-name", "pvc.annotations['none']"},
		{"R-54 all missing tokens, sorted, once each", stage("${b}${a}$b", "n"), prefix + "node-stage-secret-name", `["a" "b"]`},
		{"R-54 $x is a token like ${x}", stage("$pvc", "n"), prefix + "node-stage-secret-name", `["pvc"]`},
		{"R-54 $$ is no escape", stage("a$$b", "n"), prefix + "node-stage-secret-name", `["$"]`},
		{"R-55 as it stands", stage("Bad_Name", "n"), prefix + "node-stage-secret-name", `"Bad_Name" is not a valid name`},
		{"R-55 after it was resolved", stage("${pvc.annotations['upper']}", "n"), prefix + "node-stage-secret-name", `resolved to "Gold", which is not a valid name`},
		{"R-55 resolved to nothing", stage("${pvc.annotations['empty']}", "n"), prefix + "node-stage-secret-name", `resolved to ""`},
	} {
		t.Run(tc.row, func(t *testing.T) {
			got, problem := Resolve(NodeStage, tc.in, scope)
			if problem == nil {
				t.Fatalf("resolved to %s", got)
			}
			if problem.Parameter != tc.parameter || !strings.Contains(problem.Text, tc.text) || problem.Fix == "" {
				t.Errorf("got %+v, want %s with %q and a fix", *problem, tc.parameter, tc.text)
			}
		})
	}
}

// H-17: what cannot be known at deletion is a problem, not an empty name.
func TestResolveWithoutAClaim(t *testing.T) {
	for _, template := range []string{"${pvc.name}", "${pvc.namespace}", "${pvc.annotations['example.com/key']}"} {
		if got, problem := Resolve(Deletion, own("secret", template, "n"), Scope{VolumeName: "pv"}); problem == nil {
			t.Errorf("%s resolved to %s", template, got)
		}
	}
}

func TestSet(t *testing.T) {
	set, problem := NewSet(both(own("secret", "d", "n"), own("node-stage-secret", "s", "n")), scope)
	if problem != nil {
		t.Fatal(problem.Text)
	}
	if got := set.Reference(NodeStage); got.Name != "s" || got.Namespace != "n" {
		t.Errorf("node stage: %v", got)
	}
	if (Set{}).Reference(NodeStage) != nil {
		t.Error("an empty set has a reference")
	}
	back, err := ParseSet(set.Text())
	if err != nil || back != set {
		t.Errorf("%q became %v, %v", set.Text(), back, err)
	}
	if text := (Set{}).Text(); text != "" {
		t.Errorf("the empty set is %q", text)
	}
	for _, bad := range []string{"a", strings.Repeat("a/b,", int(kinds)+1) + "a/b"} {
		if _, err := ParseSet(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	if _, problem := NewSet(parameters{prefix + "node-expand-secret-name": "x"}, scope); problem == nil {
		t.Error("a set with half a pair")
	}
}

func TestKnownKeysAreOutsideOfTheOlderOnes(t *testing.T) {
	known := Known()
	if len(known) != 18 {
		t.Errorf("%d keys: %q", len(known), known)
	}
	for _, key := range known {
		if !strings.HasPrefix(key, prefix) && !strings.HasPrefix(key, "purser/") {
			t.Errorf("%q would be kept from the driver", key)
		}
	}
}

// FuzzResolve: whatever stands in a class or on a claim, nothing panics, and a reference is fit for
// a request to the API server.
func FuzzResolve(f *testing.F) {
	f.Add("${pvc.name}", "${pvc.namespace}", "", "", "key", "value", uint8(0))
	f.Add("$", "${", "${}", "$$", "it's", "", uint8(2))
	f.Add("${pvc.annotations['key']}", "n", "a", "b", "key", "v}", uint8(7))
	f.Fuzz(func(t *testing.T, name, namespace, oldName, fallbackName, key, value string, kind uint8) {
		k := Kind(kind) % kinds
		p := pairs[k]
		in := parameters{p.name: name, p.namespace: namespace}
		if oldName != "" {
			delete(in, p.name)
			in[p.oldName] = oldName
		}
		if fallbackName != "" {
			in[fallback.name], in[fallback.namespace] = fallbackName, namespace
		}
		if name == "" {
			delete(in, p.name)
			delete(in, p.namespace)
		}
		set := scope
		set.Annotations = map[string]string{key: value}
		got, problem := Resolve(k, in, set)
		switch {
		case problem != nil && (problem.Parameter == "" || problem.Text == ""):
			t.Errorf("a problem that says nothing: %+v", *problem)
		case problem != nil || got == (types.NamespacedName{}):
		case len(validation.IsDNS1123Subdomain(got.Name)) > 0, len(validation.IsDNS1123Label(got.Namespace)) > 0:
			t.Errorf("%q is no reference", got)
		}
		if all, problem := NewSet(in, set); problem == nil {
			if back, err := ParseSet(all.Text()); err != nil || back != all {
				t.Errorf("%q became %v, %v", all.Text(), back, err)
			}
		}
	})
}
