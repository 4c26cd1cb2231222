package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

var update = flag.Bool("update", false, "write the goldens instead of comparing them")

var folder = filepath.Join("..", "..", "deploy", "chart")

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// valueSets are the files with values that the chart is tested with, by name.
func valueSets(t *testing.T) map[string]common.Values {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "ci", "*-values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	sets := map[string]common.Values{}
	for _, file := range files {
		values, err := common.ReadValuesFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sets[strings.TrimSuffix(filepath.Base(file), "-values.yaml")] = values
	}
	return sets
}

// TestGoldens renders each set of values.
func TestGoldens(t *testing.T) {
	sets := valueSets(t)
	if len(sets) < 8 {
		t.Errorf("%d sets of values", len(sets))
	}
	for name, values := range sets {
		got, err := render(load(t), values)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		golden := filepath.Join("testdata", name+".yaml")
		if *update {
			if err := os.WriteFile(golden, []byte(got.Objects), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got.Objects != string(want) {
			t.Errorf("%s is out of date; run 'make generate'. Now:\n%s", golden, got.Objects)
		}
	}
}

// Helm's own linter has no complaint under any set of values.
func TestLint(t *testing.T) {
	for name, values := range valueSets(t) {
		for _, message := range lint.RunAll(folder, values, release.Namespace).Messages {
			if !strings.Contains(message.Error(), "icon is recommended") {
				t.Errorf("%s: %s", name, message)
			}
		}
	}
}

// parse reads values; the images are on the nodes unless they say more about them.
func parse(t *testing.T, text string) common.Values {
	t.Helper()
	values, err := common.ReadValues([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if values["image"] == nil {
		values["image"] = map[string]any{"onNodes": true}
	}
	return values
}

// With the driver there is a StorageClass, the default one, which expands where the resizer runs, and with
// the snapshotter a VolumeSnapshotClass. The values can say otherwise.
func TestClasses(t *testing.T) {
	const isDefault = "storageclass.kubernetes.io/is-default-class: \"true\""
	for text, want := range map[string]struct{ has, lacks string }{
		"driver: {enabled: true}":                                    {isDefault, "VolumeSnapshotClass"},
		"driver: {enabled: true, timeoutSeconds: 60}":                {"volumeBindingMode: WaitForFirstConsumer\nallowVolumeExpansion: true", "--leader-election"},
		"driver: {enabled: true, backend: directory}":                {"allowVolumeExpansion: false", "csi-resizer"},
		"driver: {enabled: true, resizer: false}":                    {"allowVolumeExpansion: false", "csi-resizer"},
		"driver: {enabled: true, snapshotter: true}":                 {"kind: VolumeSnapshotClass", "CustomResourceDefinition"},
		"driver: {enabled: true, storageClasses: [{name: a}]}":       {"name: a\n", isDefault},
		"driver: {enabled: true, storageClasses: []}":                {"kind: DaemonSet", "StorageClass\n"},
		"controllers: {enabled: true}":                               {"kind: Deployment", "StorageClass\n"},
		"{controllers: {enabled: true}, rbac: {create: false}}":      {"kind: ServiceAccount", "kind: ClusterRole"},
		"{snapshotCRDs: {enabled: true}}":                            {"kind: CustomResourceDefinition", "kind: Deployment"},
		"{driver: {enabled: true, singleNode: true}}":                {"--leader-election", "ValidatingAdmissionPolicyBinding\nmetadata:\n  name: purser-node"},
		"{driver: {enabled: true, nodePolicy: {enabled: false}}}":    {"--node-deployment", "purser-node"},
		"{driver: {enabled: true, nodePolicy: {enabled: true}}}":     {"name: purser-node", "resources:\n    - nodes\n"},
		"{driver: {enabled: true}, test: {enabled: true}}":           {"- check\n", "--host-network"},
		"{driver: {enabled: true}, hostNetwork: true}":               {"- --host-network\n", "kind: Deployment"},
		"{controllers: {enabled: true}, podLabels: {team: storage}}": {"team: storage", "kind: DaemonSet"},
	} {
		got, err := render(load(t), parse(t, text))
		if err != nil || !strings.Contains(got.Objects, want.has) || strings.Contains(got.Objects, want.lacks) {
			t.Errorf("%s: want %q and not %q: %v", text, want.has, want.lacks, err)
		}
	}
}

// The values for what other components of a cluster look for reach the objects.
func TestSurroundings(t *testing.T) {
	for text, wants := range map[string][]string{
		"{controllers: {enabled: true}, metrics: {dashboard: {enabled: true}}}":                {`grafana_dashboard: "1"`, "purser.json: |-"},
		"{driver: {enabled: true}, extraEnv: [{name: A, value: b}]}":                           {"- name: A\n              value: b"},
		"{driver: {enabled: true}, serviceAccount: {annotations: {a: b}}}":                     {"annotations:\n    a: b"},
		"{driver: {enabled: true, updateStrategy: {type: OnDelete}}}":                          {"type: OnDelete"},
		"{driver: {enabled: true, sidecarResources: {limits: {memory: 7Mi}}}}":                 {"memory: 7Mi"},
		"{driver: {enabled: true, sidecars: {resizer: {resources: {limits: {memory: 9Mi}}}}}}": {"memory: 9Mi", "memory: 256Mi"},
		"{controllers: {enabled: true}, serviceAccount: {name: a}}":                            {"serviceAccountName: a-controllers", "name: a-controllers\n  namespace"},
		"{driver: {enabled: true}, probes: {liveness: {periodSeconds: 77}}}":                   {"periodSeconds: 77"},
		"{ui: {enabled: true, proxy: {name: front, image: example.com/front}}}":                {"--listen=127.0.0.1:8443", "image: example.com/front\n          name: front"},
		"{controllers: {enabled: true}, networkPolicy: {enabled: true}}":                       {"kind: NetworkPolicy", "policyTypes: [Ingress]"},
	} {
		got, err := render(load(t), parse(t, text))
		for _, want := range wants {
			if err != nil || !strings.Contains(got.Objects, want) {
				t.Errorf("%s: no %q: %v", text, want, err)
			}
		}
	}
}

// A value that the chart does not know, or that cannot be, is refused with words that say which.
func TestRefusals(t *testing.T) {
	for text, words := range map[string]string{
		"ui: {enabled: true}": "ui.tlsSecret",
		"ui: {enabled: true, tlsSecret: a, proxy: {name: p}}":                                                          "give one of them",
		"ui: {enabled: true, tlsSecret: a, url: purser.example.com}":                                                   "url",
		"controllers: {enable: true}":                                                                                  "enable",
		"sidecars: {enabled: true, role: both}":                                                                        "role",
		"driver: {enabled: true, backend: ceph}":                                                                       "backend",
		"{controllers: {enabled: true}, sidecars: {enabled: true, role: plane}}":                                       "runs the controllers itself",
		"driver: {enabled: true, nodePolicy: {enabled: true}, extraArgs: ['--topology=zone=a']}":                       "driver.nodePolicy.enabled=false",
		"driver: {enabled: true, name: CSI.Purser}":                                                                    "name",
		"driver: {enabled: true, attacher: true}":                                                                      "driver.singleNode=true",
		"driver: {enabled: true, backend: directory, snapshotter: true}":                                               "takes no snapshots",
		"controllers: {port: 0}":                                                                                       "port",
		"sidecars: {timeoutSeconds: 1m}":                                                                               "timeoutSeconds",
		"image: {pullPolicy: Sometimes}":                                                                               "pullPolicy",
		"{controllers: {enabled: true}, image: {registry: ''}}":                                                        "set image.registry=REGISTRY,image.tag=TAG",
		"driver: {enabled: true, storageClasses: [{parameters: {a: b}}]}":                                              "name",
		"driver: {enabled: true, storageClasses: [{name: a, reclaim: Delete}]}":                                        "reclaim",
		"driver: {enabled: true, resizer: false, volumeAttributesClasses: [{name: a, parameters: {discard: 'true'}}]}": "driver.resizer=true",
	} {
		if _, err := render(load(t), parse(t, text)); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// SM-98: a pod may take as long to end as its longest call, and a little more.
func TestGracePeriod(t *testing.T) {
	for text, seconds := range map[string]string{
		"sidecars: {enabled: true, timeoutSeconds: 15}":                            "30",
		"sidecars: {enabled: true, timeoutSeconds: 150}":                           "160",
		"sidecars: {enabled: true, timeoutSeconds: 15, createTimeoutSeconds: 600}": "610",
		"driver: {enabled: true, timeoutSeconds: 90}":                              "100",
	} {
		got, err := render(load(t), parse(t, text))
		if err != nil || !strings.Contains(got.Objects, "terminationGracePeriodSeconds: "+seconds+"\n") {
			t.Errorf("%s: want %s seconds: %v", text, seconds, err)
		}
	}
}

// Without values the notes say that nothing runs; the plane's say what must not run beside it.
func TestChartNotes(t *testing.T) {
	for text, words := range map[string]string{
		"{}":                                  "nothing runs",
		"controllers: {enabled: true}":        "kube-controller-manager",
		"snapshotController: {enabled: true}": "custom resources of snapshots are not installed",
		"sidecars: {enabled: true, role: sidecars}": "Remove the driver's own sidecars",
	} {
		if got, err := render(load(t), parse(t, text)); err != nil || !strings.Contains(got.Notes, words) {
			t.Errorf("%s: %q, %v", text, got.Notes, err)
		}
	}
}

// VALUES.md is made of values.schema.json and values.yaml, and each value has a description.
func TestValuesPage(t *testing.T) {
	c := load(t)
	want, err := valuesPage(c.Schema, c.Values)
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(folder, "VALUES.md")
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != want {
		t.Errorf("VALUES.md is out of date; run 'make generate': %v", err)
	}
}

// A value without a description is named.
func TestValuesNeedDescriptions(t *testing.T) {
	_, err := valuesPage([]byte(`{"properties": {"a": {"description": "A.", "properties": {"b": {}}}}}`), nil)
	if err == nil || !strings.Contains(err.Error(), "a.b: needs a description") {
		t.Error(err)
	}
}

// Each default is one that the schema knows, so no value is left out of the table.
func TestDefaultsAreInTheSchema(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(folder, "VALUES.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range load(t).Values {
		if group, is := value.(map[string]any); is {
			for below := range group {
				if !strings.Contains(string(page), "| `"+name+"."+below) {
					t.Errorf("VALUES.md has no %s.%s", name, below)
				}
			}
		} else if !strings.Contains(string(page), "| `"+name+"` |") {
			t.Errorf("VALUES.md has no %s", name)
		}
	}
}
