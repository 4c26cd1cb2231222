package explain

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/test/explain/properties"
	"github.com/purser-csi/purser/test/rolestest"
)

// TestAdviceIsAccepted tries each command of the answers that changes something on a real API server, with
// --dry-run=server: no advice is one that the API refuses.
func TestAdviceIsAccepted(t *testing.T) {
	server := rolestest.LiveServer(t)
	bin := filepath.Join("..", "..", "bin")
	if err := server.Install(t.Context(), cluster.FindResources(bin)...); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(server.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := adviceServer{t, api, properties.Server{Kubectl: filepath.Join(bin, "kubectl"), Kubeconfig: server.Kubeconfig()}}
	for _, name := range []string{"shop", "populators"} {
		p.make(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}})
	}
	for _, namespace := range []string{"shop", "kube-system"} {
		p.make(map[string]any{
			"apiVersion": "v1", "kind": "ServiceAccount",
			"metadata": map[string]any{"name": "default", "namespace": namespace},
		})
	}
	base, all := readSituations(t)
	tried := 0
	for _, s := range all {
		objects := p.objects(s, base)
		var made []*unstructured.Unstructured
		for _, line := range commandsOf(t, s, base, s.Explain, "shop") {
			words := properties.Changes(line)
			if words == nil {
				continue
			}
			for _, o := range objects {
				if isNamedBy(words, objects, o) && !slices.Contains(made, o) && o.GetKind() != "Namespace" {
					p.make(o.Object)
					made = append(made, o)
				}
			}
			tried++
			if out := p.Try(t.Context(), words); out != "" {
				t.Errorf("%s: %s: %s", s.Name, line, out)
			}
		}
		for _, o := range made {
			p.remove(o)
		}
	}
	t.Logf("%d commands were tried", tried)
	if tried < 40 {
		t.Errorf("%d commands were tried", tried)
	}
}

// isNamedBy reports whether a command names an object, or a claim of the class. What a claim may be changed
// to depends on its class.
func isNamedBy(words []string, objects []*unstructured.Unstructured, o *unstructured.Unstructured) bool {
	return slices.Contains(words, o.GetName()) || o.GetKind() == "StorageClass" &&
		slices.ContainsFunc(objects, func(claim *unstructured.Unstructured) bool {
			class, _, _ := unstructured.NestedString(claim.Object, "spec", "storageClassName")
			return claim.GetKind() == "PersistentVolumeClaim" && slices.Contains(words, claim.GetName()) && class == o.GetName()
		})
}

// adviceServer is an API server on which commands are tried.
type adviceServer struct {
	*testing.T

	api client.Client
	properties.Server
}

// objects are those of a situation as a client can create them.
func (p adviceServer) objects(s situation, base []map[string]any) (all []*unstructured.Unstructured) {
	p.Helper()
	text, err := os.ReadFile(s.dump(p.T, base))
	var list struct {
		Items []map[string]any `json:"items"`
	}
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		p.Fatal(err)
	}
	for _, item := range list.Items {
		o := &unstructured.Unstructured{Object: item}
		for _, field := range []string{
			"uid", "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "finalizers", "managedFields",
		} {
			unstructured.RemoveNestedField(item, "metadata", field)
		}
		if o.GetKind() != "PersistentVolumeClaim" { // only a bound one can be expanded
			delete(item, "status")
		}
		creatable(o)
		all = append(all, o)
	}
	return all
}

// creatable fills in what the API demands and the situations leave out.
func creatable(o *unstructured.Unstructured) {
	set := func(value any, fields ...string) {
		if _, has, _ := unstructured.NestedFieldNoCopy(o.Object, fields...); !has {
			_ = unstructured.SetNestedField(o.Object, value, fields...)
		}
	}
	switch o.GetKind() {
	case "Deployment", "StatefulSet", "DaemonSet":
		labels := map[string]any{"app": o.GetName()}
		_ = unstructured.SetNestedMap(o.Object, map[string]any{"matchLabels": labels}, "spec", "selector")
		_ = unstructured.SetNestedMap(o.Object, labels, "spec", "template", "metadata", "labels")
		_ = unstructured.SetNestedSlice(
			o.Object, []any{map[string]any{"name": "c", "image": "i"}}, "spec", "template", "spec", "containers",
		)
		for _, template := range templatesOf(o) {
			_ = unstructured.SetNestedSlice(template, []any{"ReadWriteOnce"}, "spec", "accessModes")
		}
	case "Job":
		unstructured.RemoveNestedField(o.Object, "spec", "template", "spec", "containers")
		set([]any{map[string]any{"name": "c", "image": "i"}}, "spec", "template", "spec", "containers")
		set("Never", "spec", "template", "spec", "restartPolicy")
	case "Pod":
		unstructured.RemoveNestedField(o.Object, "spec", "containers")
		set([]any{map[string]any{"name": "c", "image": "i"}}, "spec", "containers")
		set(int64(0), "spec", "terminationGracePeriodSeconds")
		set("default", "spec", "serviceAccountName")
		set(false, "spec", "automountServiceAccountToken")
	case "PersistentVolume":
		set([]any{"ReadWriteOnce"}, "spec", "accessModes")
		set(map[string]any{"storage": "1Gi"}, "spec", "capacity")
	case "VolumeSnapshotContent":
		set("Delete", "spec", "deletionPolicy")
	}
}

// templatesOf are the volumeClaimTemplates of a StatefulSet.
func templatesOf(o *unstructured.Unstructured) (all []map[string]any) {
	list, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "volumeClaimTemplates")
	entries, _ := list.([]any)
	for _, entry := range entries {
		if template, is := entry.(map[string]any); is {
			all = append(all, template)
		}
	}
	return all
}

func (p adviceServer) make(object map[string]any) {
	p.Helper()
	o := &unstructured.Unstructured{Object: object}
	created := o.DeepCopy()
	if err := p.api.Create(p.Context(), created); err != nil {
		p.Logf("not made: %s %s: %v", o.GetKind(), o.GetName(), err)
		return
	}
	if status, has := object["status"]; has {
		created.Object["status"] = status
		if err := p.api.Status().Update(p.Context(), created); err != nil {
			p.Logf("without its status: %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

func (p adviceServer) remove(o *unstructured.Unstructured) {
	p.Helper()
	now := p.Context()
	found := o.DeepCopy()
	if p.api.Get(now, client.ObjectKeyFromObject(o), found) != nil {
		return
	}
	found.SetFinalizers(nil)
	if err := p.api.Update(now, found); err != nil {
		p.Logf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
	_ = p.api.Delete(now, found, client.GracePeriodSeconds(0)) // gone, or in the way of the next, which says so
}
