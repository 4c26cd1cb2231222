package live

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/roles/controllers"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/up/bootstrap"
	"github.com/purser-csi/purser/test/e2e/audit"
	"github.com/purser-csi/purser/test/rolestest"
)

// liveCluster is a test cluster with an administrator's client. Its roles run under the service accounts and
// permissions that Purser ships.
type liveCluster struct {
	*testing.T

	server *cluster.Cluster
	user   client.Client
	setup  bootstrap.Setup
}

func newLiveCluster(t *testing.T, components ...cluster.Component) liveCluster {
	t.Helper()
	return newLiveClusterOn(t, rolestest.LiveServer(t, components...))
}

func newLiveClusterOn(t *testing.T, server *cluster.Cluster) liveCluster {
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
	p := liveCluster{t, server, user, f}
	p.awaitGranted(lastRole, lastRole)
	return p
}

// lastRole is the role whose manifest is applied last.
const lastRole = "volume-data-source-validator"

// awaitGranted waits until an account has the permissions of the manifests of roles. The API server
// enforces a role some time after it is written, and refuses requests until then.
func (p liveCluster) awaitGranted(account string, roles ...string) {
	p.Helper()
	for _, role := range roles {
		wanted, err := process.ShippedPermissions(role, process.SystemNamespace)
		if err != nil {
			p.Fatal(err)
		}
		awaitMissing(p.T, p.as(account), process.PermissionCheck{Wanted: wanted}, nil)
	}
}

func (p liveCluster) as(account string) *rest.Config {
	p.Helper()
	api, err := p.setup.ConfigFor(p.Context(), account)
	if err != nil {
		p.Fatal(err)
	}
	return api
}

// quickly are flags that make leader election fast enough for tests, and slow enough for a machine
// on which a renewal takes seconds.
var quickly = []string{
	"--leader-election", "--leader-election-namespace=" + process.SystemNamespace, "--http-endpoint=127.0.0.1:0",
	"--leader-election-lease-duration=9s", "--leader-election-renew-deadline=8s", "--leader-election-retry-period=500ms",
}

// controllers returns the role, not started, with its address and its log.
func (p liveCluster) controllers(args ...string) (c *controllers.Controllers, address func() string, log *rolestest.Log) {
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

func (p liveCluster) create(objects ...client.Object) {
	p.Helper()
	for _, o := range objects {
		if err := p.user.Create(p.Context(), o); err != nil {
			p.Fatal(err)
		}
	}
}

func (p liveCluster) volume(name, class string, edit func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
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

// claim creates a claim of a class; nil for none.
func (p liveCluster) claim(name string, class *string) *corev1.PersistentVolumeClaim {
	p.Helper()
	claim := claimOf(name, class)
	p.create(claim)
	return claim
}

func claimOf(name string, class *string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

// await reads the object until holds returns true.
func await[T client.Object](p liveCluster, what string, object T, holds func(T) bool) {
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
func (p liveCluster) remove(object client.Object) {
	p.Helper()
	if err := p.user.Delete(p.Context(), object); err != nil {
		p.Fatal(err)
	}
	rolestest.Eventually(p.T, object.GetName()+" is gone", func() error { return p.gone(object) })
}

func (p liveCluster) gone(object client.Object) error {
	err := p.user.Get(p.Context(), client.ObjectKeyFromObject(object), object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(fmt.Errorf("it has finalizers %q", object.GetFinalizers()), err)
}

// log returns the audit log of the API server.
func (p liveCluster) log() *audit.Log {
	return &audit.Log{Path: p.server.AuditLog(), Touch: func(ctx context.Context, mark string) error {
		return client.IgnoreNotFound(p.user.Get(ctx, client.ObjectKey{Name: mark}, &corev1.Namespace{}))
	}}
}

func (p liveCluster) mark() audit.Mark {
	p.Helper()
	m, err := p.log().Mark(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	return m
}

// asked returns the requests of a service account between two marks of the audit log.
func (p liveCluster) asked(from, to audit.Mark, account string) audit.Tally {
	p.Helper()
	tally, err := p.log().Between(from, to)
	if err != nil {
		p.Fatal(err)
	}
	return tally.By(audit.ServiceAccount(process.SystemNamespace, account))
}
