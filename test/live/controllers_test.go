package live

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/roles/controllers"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/rolestest"
)

// `purser controllers` as a leader and a standby, with the shipped permissions: every controller
// works, and both end in order (1.16, 1.17, section 10).
func TestControllersProcess(t *testing.T) {
	p := newLiveCluster(t)
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

// work gives each of the controllers an object to work on.
func (p liveCluster) work() {
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

// expand writes a larger size into the claim, as a user does, and waits for the event that an
// external resizer is expected to expand it.
func (p liveCluster) expand(claim *corev1.PersistentVolumeClaim) {
	p.Helper()
	before := claim.DeepCopy()
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
	if err := p.user.Patch(p.Context(), claim, client.MergeFrom(before)); err != nil { // the controllers write too
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

// ephemeral creates a pod with a generic ephemeral volume.
func (p liveCluster) ephemeral() {
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

// The PV controller has all metrics of upstream, under the same names (1.16).
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

// Section 10: a disabled controller does nothing, and the permissions that only it needs are not
// checked. A missing permission of an enabled one is logged, also when no controller can start
// without it (U-11).
func TestControllersSelection(t *testing.T) {
	p := newLiveCluster(t)
	withoutBinder, _, log := p.controllers("--leader-election=false", "--controllers=*,-"+controllers.NameBinder+",-"+controllers.NameVolumeProtection)
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
	if err := p.setup.ApplyRoles(t.Context()); err != nil { // grants them
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

// withhold removes the rules with these permissions from the ClusterRole, and waits until the API
// server denies them.
func (p liveCluster) withhold(api *rest.Config, withheld ...process.Permission) {
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
