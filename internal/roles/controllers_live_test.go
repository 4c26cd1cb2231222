package roles

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/roles/controllers"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/internal/roles/rolestest"
	"github.com/purser-csi/purser/internal/roles/up/bootstrap"
	"github.com/purser-csi/purser/test/e2e/audit"
)

// port is a cluster whose users are the administrator, and roles under the service accounts and
// permissions that Purser ships.
type port struct {
	*testing.T

	server    *cluster.Cluster
	user      client.Client
	furnisher bootstrap.Setup
}

func newPort(t *testing.T, components ...cluster.Component) port {
	t.Helper()
	return newPortOn(t, rolestest.LiveServer(t, components...))
}

func newPortOn(t *testing.T, server *cluster.Cluster) port {
	t.Helper()
	ctrllog.SetLogger(logr.Discard())
	user, err := client.New(server.RESTConfig(), client.Options{Scheme: rolestest.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	f, err := bootstrap.New(server.RESTConfig())
	if err == nil {
		err = f.ApplyRoles(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return port{t, server, user, f}
}

func (p port) as(account string) *rest.Config {
	p.Helper()
	api, err := p.furnisher.ConfigFor(p.Context(), account)
	if err != nil {
		p.Fatal(err)
	}
	return api
}

// quickly makes an election one for tests.
var quickly = []string{
	"--leader-election", "--leader-election-namespace=" + process.SystemNamespace, "--http-endpoint=127.0.0.1:0",
	"--leader-election-lease-duration=3s", "--leader-election-renew-deadline=2s", "--leader-election-retry-period=500ms",
}

// controllers are the role, not started, where it serves and what it logs.
func (p port) controllers(args ...string) (c *controllers.Controllers, address func() string, log *rolestest.Log) {
	p.Helper()
	c = controllers.New()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.AddFlags(flags)
	if err := flags.Parse(append(slices.Clone(quickly), args...)); err != nil || c.Validate() != nil {
		p.Fatal(err, c.Validate())
	}
	log = &rolestest.Log{}
	c.Version, c.API, c.Log = "test", p.as("controllers"), log.Logger()
	where := make(chan net.Addr, 1)
	c.Listened = func(a net.Addr) { where <- a }
	return c, sync.OnceValue(func() string { return fmt.Sprintf("http://%s", <-where) }), log
}

func (p port) create(objects ...client.Object) {
	p.Helper()
	for _, o := range objects {
		if err := p.user.Create(p.Context(), o); err != nil {
			p.Fatal(err)
		}
	}
}

func (p port) volume(name, class string, edit func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	p.Helper()
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "foreign.csi", VolumeHandle: name}},
			StorageClassName:       class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		},
	}
	edit(pv)
	p.create(pv)
	return pv
}

// claim asks for a volume of a class; nil for none.
func (p port) claim(name string, class *string) *corev1.PersistentVolumeClaim {
	p.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	p.create(claim)
	return claim
}

// await reads the object again until it is as it should be.
func await[T client.Object](p port, what string, object T, holds func(T) bool) {
	p.Helper()
	rolestest.Eventually(p.T, what, func() error {
		if err := p.user.Get(p.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if !holds(object) {
			return fmt.Errorf("%+v", object)
		}
		return nil
	})
}

func isBound(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Status.Phase == corev1.ClaimBound
}

// remove deletes an object and waits until it is gone.
func (p port) remove(object client.Object) {
	p.Helper()
	if err := p.user.Delete(p.Context(), object); err != nil {
		p.Fatal(err)
	}
	rolestest.Eventually(p.T, object.GetName()+" is gone", func() error { return p.gone(object) })
}

func (p port) gone(object client.Object) error {
	err := p.user.Get(p.Context(), client.ObjectKeyFromObject(object), object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(fmt.Errorf("it has finalizers %q", object.GetFinalizers()), err)
}

// log is what the API server notes of each request.
func (p port) log() *audit.Log {
	return &audit.Log{Path: p.server.AuditLog(), Touch: func(ctx context.Context, mark string) error {
		return client.IgnoreNotFound(p.user.Get(ctx, client.ObjectKey{Name: mark}, &corev1.Namespace{}))
	}}
}

func (p port) mark() audit.Mark {
	p.Helper()
	m, err := p.log().Mark(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	return m
}

// asked is what a service account has asked the API server between two marks.
func (p port) asked(from, to audit.Mark, account string) audit.Tally {
	p.Helper()
	tally, err := p.log().Between(from, to)
	if err != nil {
		p.Fatal(err)
	}
	return tally.By(audit.ServiceAccount(process.SystemNamespace, account))
}

// One leader and one standby, every controller at work, an orderly end, and all of it with the
// permissions as shipped: what an operator sees of `purser controllers` (1.16, 1.17, section 10).
func TestControllersProcess(t *testing.T) {
	p := newPort(t)
	lease := client.ObjectKey{Namespace: process.SystemNamespace, Name: controllers.Lease}
	first, firstAt, log := p.controllers()
	endFirst := rolestest.InBackground(t, first.Run)
	rolestest.Eventually(t, "a leader", func() error { return holdsLease(t, p.user, lease, first.Election.Identity()) })
	rolestest.Eventually(t, "the leader is ready", func() error { return ok(t, firstAt()+"/readyz") })
	second, secondAt, _ := p.controllers()
	rolestest.InBackground(t, second.Run)
	rolestest.Eventually(t, "the standby is ready before it leads", func() error { return ok(t, secondAt()+"/readyz") })

	p.work()
	rolestest.Eventually(t, "the last failure is counted", func() error { // a moment after one can see it
		if _, counted := scrape(t, firstAt()+"/metrics")["volume_operation_errors_total"]; !counted {
			return errors.New("not yet")
		}
		return nil
	})
	compareMetrics(t, scrape(t, firstAt()+"/metrics"), "controllers_metrics.txt")
	for _, line := range log.Lines() {
		if strings.Contains(line, "permission") {
			t.Errorf("the shipped role lacks something: %s", line)
		}
	}
	if err := holdsLease(t, p.user, lease, first.Election.Identity()); err != nil {
		t.Fatal(err)
	}
	endFirst()
	rolestest.Eventually(t, "the standby leads", func() error { return holdsLease(t, p.user, lease, second.Election.Identity()) })
	p.volume("late", "static", func(*corev1.PersistentVolume) {})
	await(p, "a claim is bound by the next leader", p.claim("late", new("static")), isBound)
	if refused := p.asked(0, p.mark(), "controllers").Answered(401, 403); refused > 0 {
		t.Errorf("%d requests were forbidden: %v", refused, p.asked(0, p.mark(), "controllers"))
	}
}

// work has something for each of the controllers.
func (p port) work() {
	p.Helper()
	p.create(
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "static"}, Provisioner: "kubernetes.io/no-provisioner", AllowVolumeExpansion: new(true)},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}, Provisioner: "foreign.csi", AllowVolumeExpansion: new(true)},
	)
	classless := p.claim("classless", nil)
	p.volume("static", "static", func(*corev1.PersistentVolume) {})
	static := p.claim("static", new("static"))
	await(p, "a claim finds a volume", static, isBound)

	dynamic := p.claim("dynamic", new("foreign"))
	await(p, "the provisioner is asked", dynamic, func(c *corev1.PersistentVolumeClaim) bool {
		return c.Annotations[names.AnnStorageProvisioner] == "foreign.csi"
	})
	pv := p.volume("pvc-"+string(dynamic.UID), "foreign", func(pv *corev1.PersistentVolume) {
		pv.Annotations = map[string]string{names.AnnProvisionedBy: "foreign.csi"}
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: dynamic.Namespace, Name: dynamic.Name, UID: dynamic.UID}
	})
	await(p, "the provisioned volume is bound", dynamic, isBound)
	p.expand(dynamic)
	p.remove(dynamic)
	await(p, "the volume is released", pv, func(pv *corev1.PersistentVolume) bool { return pv.Status.Phase == corev1.VolumeReleased })
	p.remove(pv) // as the provisioner does

	p.create(&storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "default", Annotations: map[string]string{names.AnnDefaultStorageClass: "true"}},
		Provisioner: "foreign.csi",
	})
	await(p, "the default class is assigned", classless, func(c *corev1.PersistentVolumeClaim) bool { return c.Spec.StorageClassName != nil })
	p.ephemeral()
	attributes := &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "gold"}, DriverName: "foreign.csi", Parameters: map[string]string{"tier": "1"}}
	p.create(attributes)
	await(p, "the attributes class is protected", attributes, func(c *storagev1.VolumeAttributesClass) bool {
		return slices.Contains(c.Finalizers, names.FinalizerVACProtection)
	})
	p.remove(attributes)

	p.volume("spare", "static", func(*corev1.PersistentVolume) {})
	undeletable := p.volume("undeletable", "static", func(pv *corev1.PersistentVolume) {
		pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/none"}}
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: "long-gone", UID: "long-gone"}
	})
	await(p, "a volume without a deleter becomes Failed", undeletable, func(pv *corev1.PersistentVolume) bool { return pv.Status.Phase == corev1.VolumeFailed })
}

// expand has the claim grow, which is for an external resizer to do.
func (p port) expand(claim *corev1.PersistentVolumeClaim) {
	p.Helper()
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
	if err := p.user.Update(p.Context(), claim); err != nil {
		p.Fatal(err)
	}
	rolestest.Eventually(p.T, "the resizer is awaited", func() error {
		var events corev1.EventList
		if err := p.user.List(p.Context(), &events, client.InNamespace(claim.Namespace)); err != nil {
			return err
		}
		if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.UID == claim.UID && e.Reason == "ExternalExpanding" && e.Source.Component == "volume_expand"
		}) {
			return fmt.Errorf("no event among %d", len(events.Items))
		}
		return nil
	})
}

// ephemeral is a pod with a volume of its own.
func (p port) ephemeral() {
	p.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "sailor"},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(false),
			Containers:                   []corev1.Container{{Name: "c", Image: "none"}},
			Volumes: []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
				VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
					StorageClassName: new("foreign"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				}},
			}}}},
		},
	}
	p.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}}, pod)
	await(p, "the pod's claim", &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "sailor-scratch"}},
		func(c *corev1.PersistentVolumeClaim) bool { return metav1.IsControlledBy(c, pod) })
}

// The metrics of the PV controller that dashboards know are all there, under upstream's names (1.16).
func TestControllersMetricsAreUpstreams(t *testing.T) {
	golden, err := os.ReadFile(filepath.Join("testdata", "controllers_metrics.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, metric := range []string{
		"gauge pv_collector_total_pv_count{plugin_name,volume_mode}",
		"gauge pv_collector_bound_pv_count{storage_class}",
		"gauge pv_collector_unbound_pv_count{storage_class}",
		"gauge pv_collector_bound_pvc_count{namespace,storage_class,volume_attributes_class}",
		"gauge pv_collector_unbound_pvc_count{namespace,storage_class,volume_attributes_class}",
		"histogram volume_operation_total_seconds{operation_name,plugin_name} ",
		"counter volume_operation_errors_total{operation_name,plugin_name}",
		"counter retroactive_storageclass_total{}",
		"counter retroactive_storageclass_errors_total{}",
		"gauge workqueue_depth{controller,name,priority}",
	} {
		if !strings.Contains("\n"+string(golden), "\n"+metric) {
			t.Errorf("no %s", metric)
		}
	}
}

// Section 10: a controller that is left to kube-controller-manager does nothing here, and the
// permissions for it alone are not missed. One that is missed is named, also when nothing can begin
// without it (U-11).
func TestControllersSelection(t *testing.T) {
	p := newPort(t)
	withoutBinder, _, log := p.controllers("--leader-election=false", "--controllers=*,-"+registry.NameBinder+",-"+registry.NameVolumeProtection)
	forBinder := process.Permission{Resource: "persistentvolumes/status", Verb: "patch"}
	classes := process.Permission{Group: "storage.k8s.io", Resource: "volumeattributesclasses", Verb: "list"}
	p.withhold(withoutBinder.API, forBinder, classes)
	p.create(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "static"}, Provisioner: "kubernetes.io/no-provisioner"})
	pv := p.volume("v", "static", func(*corev1.PersistentVolume) {})
	bystander, passing := p.claim("bystander", new("static")), p.claim("passing", new("static"))
	end := rolestest.InBackground(t, withoutBinder.Run)
	rolestest.Eventually(t, "the missing permissions are named", func() error {
		if got := strings.Join(log.Lines(), "\n"); !strings.Contains(got, "missing permission: "+classes.String()) {
			return fmt.Errorf("logged %s", got)
		}
		return nil
	})
	if err := p.furnisher.ApplyRoles(t.Context()); err != nil { // grants them
		t.Fatal(err)
	}
	p.remove(passing) // by the protection of claims, which begins now
	end()
	if logged := strings.Join(log.Lines(), "\n"); strings.Contains(logged, "missing permission: "+forBinder.String()) {
		t.Errorf("misses what only the binder needs: %s", logged)
	}
	if err := p.user.Get(t.Context(), client.ObjectKeyFromObject(bystander), bystander); err != nil || bystander.Spec.VolumeName != "" || bystander.Status.Phase != corev1.ClaimPending {
		t.Errorf("without the binder: %v, %+v", err, bystander)
	}
	if err := p.user.Get(t.Context(), client.ObjectKeyFromObject(pv), pv); err != nil || pv.Status.Phase == corev1.VolumeAvailable {
		t.Errorf("without the binder: %v, phase %s", err, pv.Status.Phase)
	}
	for request, answers := range p.asked(0, p.mark(), "controllers") {
		if request.Resource == "storageclasses" {
			t.Errorf("asks for what only the binder needs: %v %v", request, answers)
		}
	}
}

// withhold takes the rules with these permissions out of the role, and waits until that is in force.
func (p port) withhold(api *rest.Config, withheld ...process.Permission) {
	p.Helper()
	var role rbacv1.ClusterRole
	if err := p.user.Get(p.Context(), client.ObjectKey{Name: "purser-controllers"}, &role); err != nil {
		p.Fatal(err)
	}
	for _, w := range withheld {
		role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(process.PermissionsOf(r, ""), w) })
	}
	if err := p.user.Update(p.Context(), &role); err != nil {
		p.Fatal(err)
	}
	rolestest.Eventually(p.T, "the smaller role is in force", func() error {
		missing, err := process.MissingPermissions(p.Context(), api, withheld)
		if err == nil && len(missing) < len(withheld) {
			err = fmt.Errorf("missing only %v", missing)
		}
		return err
	})
}
