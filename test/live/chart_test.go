package live

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/rolestest"
)

// rendered are the objects of the chart under one set of values; the tests of tools/chart hold the
// files to what helm renders.
type rendered struct {
	name    string
	objects []*unstructured.Unstructured
}

func renderedCharts(t *testing.T) (all []rendered) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "tools", "chart", "testdata", "*.yaml"))
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := rendered{name: strings.TrimSuffix(filepath.Base(file), ".yaml")}
		for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if len(object.Object) > 0 { // a template may begin with a separator
				r.objects = append(r.objects, object)
			}
		}
		all = append(all, r)
	}
	return all
}

// workload is a controller of pods and the account that they have.
type workload struct {
	name string
	pod  corev1.PodSpec
}

func (r rendered) workloads(t *testing.T) (all []workload) {
	t.Helper()
	for _, object := range r.objects {
		pod, found, err := unstructured.NestedMap(object.Object, "spec", "template", "spec")
		if err != nil {
			t.Fatal(err)
		}
		if found {
			w := workload{name: object.GetName()}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(pod, &w.pod); err != nil {
				t.Fatal(err)
			}
			all = append(all, w)
		}
	}
	return all
}

// Every command line of the chart is one that its role starts with, and every mount has its volume.
func TestChartCommandLines(t *testing.T) {
	t.Setenv("NODE_NAME", "node")
	t.Setenv("POD_NAME", "pod")
	t.Setenv("NAMESPACE", "purser-system")
	for _, r := range renderedCharts(t) {
		for _, w := range r.workloads(t) {
			ports := map[int32]string{}
			for _, container := range w.pod.Containers {
				checkCommandLine(t, container)
				for _, mount := range container.VolumeMounts {
					if !hasVolume(w.pod, mount.Name) {
						t.Errorf("%s: %s of %s mounts %s, which the pod does not have", r.name, container.Name, w.name, mount.Name)
					}
				}
				for _, port := range container.Ports {
					if taken := ports[port.ContainerPort]; taken != "" {
						t.Errorf("%s: %s and %s of %s have port %d", r.name, taken, container.Name, w.name, port.ContainerPort)
					}
					ports[port.ContainerPort] = container.Name
				}
			}
		}
	}
}

// shippedFor are the permissions of the roles that a pod runs, in the chart's namespace.
func shippedFor(t *testing.T, pod corev1.PodSpec) map[process.Permission]bool {
	t.Helper()
	all := map[process.Permission]bool{}
	for _, container := range pod.Containers {
		ofOneNode := slices.Contains(container.Args, "--node-deployment")
		if slices.Contains(container.Args, "--metrics-secure") {
			for _, p := range process.ReviewPermissions {
				all[p] = true
			}
		}
		for _, role := range rolesOfContainer(container) {
			shipped, err := process.ShippedPermissions(role, process.SystemNamespace)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range shipped {
				all[p] = !ofOneNode || p.Namespace != "" || !slices.Contains(ofAllNodes, p.Resource)
			}
		}
		if slices.Contains(container.Args, "--enable-distributed-snapshotting") {
			for _, verb := range []string{"get", "list", "watch"} {
				all[process.Permission{Resource: "nodes", Verb: verb}] = true
			}
		}
	}
	maps.DeleteFunc(all, func(_ process.Permission, needed bool) bool { return !needed })
	return all
}

// ofAllNodes are what only sidecars of the whole cluster read.
var ofAllNodes = []string{"nodes", "csinodes", "pods", "volumeattachments"}

// rolesOfContainer are the manifests of deploy/rbac whose permissions a command line needs.
func rolesOfContainer(container corev1.Container) []string {
	switch role := container.Args[0]; role {
	case "driver", "ui": // that of the pages is compared with what they read (internal/roles/ui)
		return nil
	case "plane":
		roles := []string{"controllers", "csi-provisioner", "csi-resizer"}
		if slices.Contains(container.Args, "--with-attacher") {
			roles = append(roles, "csi-attacher")
		}
		if slices.Contains(container.Args, "--with-snapshotter") {
			roles = append(roles, "csi-snapshotter", "snapshot-controller")
		}
		return roles
	case "sidecars":
		roles := []string{"csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter"}
		for _, arg := range container.Args {
			if without, ok := strings.CutPrefix(arg, "--without="); ok {
				roles = slices.DeleteFunc(roles, func(r string) bool {
					return slices.Contains(strings.Split(without, ","), strings.TrimPrefix(r, "csi-"))
				})
			}
		}
		return roles
	default:
		return []string{role}
	}
}

// hasAccounts reports whether the chart creates the accounts and their roles (serviceAccount.create, rbac.create).
func (r rendered) hasAccounts() bool {
	return slices.ContainsFunc(r.objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ServiceAccount" })
}

// granted are the permissions in the ClusterRole and the Role of an account, those of secrets apart.
func (r rendered) granted(t *testing.T, account string) map[process.Permission]bool {
	t.Helper()
	all := map[process.Permission]bool{}
	for _, object := range r.objects {
		if kind := object.GetKind(); object.GetName() != account || (kind != "Role" && kind != "ClusterRole") {
			continue
		}
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, p := range process.PermissionsOf(rule, object.GetNamespace()) {
				all[p] = true
			}
		}
	}
	return all
}

// The account of each pod may do what the roles in it need, and nothing else.
func TestChartPermissions(t *testing.T) {
	for _, r := range renderedCharts(t) {
		if !r.hasAccounts() {
			continue
		}
		for _, w := range r.workloads(t) {
			if w.pod.Containers[0].Args[0] == "ui" {
				continue
			}
			if diff := cmp.Diff(shippedFor(t, w.pod), r.granted(t, w.pod.ServiceAccountName)); diff != "" {
				t.Errorf("%s: %s (-needed +granted):\n%s", r.name, w.name, diff)
			}
		}
	}
}

// A real API server accepts what the chart renders, in a dry run and then for real, the accounts
// have their permissions there, and what claims to be restricted is.
func TestChartOnAnAPIServer(t *testing.T) {
	p := newLiveCluster(t)
	p.snapshotKinds()
	p.monitoringKinds()
	p.create(&corev1.Namespace{ObjectMeta: metav1Name("rook-ceph")}, &corev1.Namespace{ObjectMeta: metav1Name("monitoring")}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "strict", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}})
	for _, r := range renderedCharts(t) {
		t.Run(r.name, func(t *testing.T) {
			p := p
			p.T = t
			for _, options := range [][]client.ApplyOption{{client.DryRunAll}, nil} {
				for _, object := range r.objects {
					if object.GetKind() == "Pod" && options != nil {
						continue // of an account that a dry run does not create
					}
					o := append([]client.ApplyOption{client.FieldOwner("helm"), client.ForceOwnership}, options...)
					if err := p.user.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object.DeepCopy()), o...); err != nil {
						t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
					}
				}
			}
			for _, w := range r.workloads(t) {
				if r.hasAccounts() {
					p.mayDo(w)
				}
				p.isRestricted(w)
			}
			for _, object := range r.objects {
				if object.GetKind() == "CustomResourceDefinition" {
					continue // of the other sets of values too
				}
				if err := p.user.Delete(t.Context(), object.DeepCopy()); err != nil {
					t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
				}
			}
		})
	}
}

// mayDo asks the API server about each permission that the pod's roles need.
func (p liveCluster) mayDo(w workload) {
	p.Helper()
	var wanted []process.Permission
	for permission := range shippedFor(p.T, w.pod) {
		wanted = append(wanted, permission)
	}
	api := p.as(w.pod.ServiceAccountName)
	rolestest.Eventually(p.T, w.name+" has its permissions", func() error {
		missing, err := process.MissingPermissions(p.Context(), api, wanted)
		if err == nil && len(missing) > 0 {
			err = errors.New("missing: " + missing[0].String())
		}
		return err
	})
}

// isRestricted has a namespace of the level restricted take the pod, unless it uses the node's files.
func (p liveCluster) isRestricted(w workload) {
	p.Helper()
	if slices.ContainsFunc(w.pod.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil }) {
		return
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "strict", Name: w.name}, Spec: w.pod}
	pod.Spec.ServiceAccountName = "default"
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "strict", Name: "default"}}
	if err := p.user.Create(p.Context(), account); client.IgnoreAlreadyExists(err) != nil {
		p.Fatal(err)
	}
	if err := p.user.Create(p.Context(), pod, client.DryRunAll); err != nil {
		p.Error(err)
	}
}

// monitoringKinds installs what of the Prometheus operator the chart uses, without its schema.
func (p liveCluster) monitoringKinds() {
	p.Helper()
	var files []string
	for kind, plural := range map[string]string{"ServiceMonitor": "servicemonitors", "PrometheusRule": "prometheusrules"} {
		file := filepath.Join(p.TempDir(), plural+".yaml")
		text := strings.NewReplacer("KIND", kind, "PLURAL", plural).Replace(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: PLURAL.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: KIND, plural: PLURAL}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			p.Fatal(err)
		}
		files = append(files, file)
	}
	if err := p.server.Install(p.Context(), files...); err != nil {
		p.Fatal(err)
	}
}

// The controllers do all their work under the account of the chart's Deployment.
func TestChartControllersAtWork(t *testing.T) {
	p := newLiveCluster(t)
	c, _, log := p.controllers()
	for _, r := range renderedCharts(t) {
		if r.name != "controllers" {
			continue
		}
		for _, object := range r.objects {
			if group := object.GroupVersionKind().Group; group != rbacv1.GroupName && object.GetKind() != "ServiceAccount" {
				continue
			}
			err := p.user.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("helm"), client.ForceOwnership)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	p.awaitGranted("purser-controllers", "controllers")
	c.API = p.as("purser-controllers")
	rolestest.InBackground(t, c.Run)
	p.work()
	if refused := p.asked(0, p.mark(), "purser-controllers").Answered(401, 403); refused > 0 {
		t.Errorf("%d requests were forbidden", refused)
	}
	if logged := strings.Join(log.Lines(), "\n"); strings.Contains(logged, "missing permission") {
		t.Error(logged)
	}
}
