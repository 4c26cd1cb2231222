package audited

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/up/bootstrap"
	"github.com/purser-csi/purser/test/bench/kubeconfig"
	"github.com/purser-csi/purser/test/e2e/audit"
)

const (
	// Namespace is that of the claims.
	Namespace = "default"
	// Writers is how many requests of the benchmark are in flight.
	Writers = 16
)

// Server is an API server without limits for its administrator.
type Server struct {
	Bin, Dir string
	Scheme   *k8sruntime.Scheme
	Admin    *rest.Config
	API      client.Client
	Log      *audit.Log

	cluster *cluster.Cluster
}

// Start starts the server in a folder, with a service account for pods.
func Start(ctx context.Context, bin, dir string) (*Server, error) {
	s := &Server{Bin: bin, Dir: dir, Scheme: kube.NewScheme()}
	if err := rbacv1.AddToScheme(s.Scheme); err != nil {
		return nil, err
	}
	binaries, err := cluster.FindBinaries(cluster.Components{}.Programs(), bin)
	if err != nil {
		return nil, err
	}
	config := cluster.Config{Dir: filepath.Join(dir, "cluster"), Binaries: binaries, Audit: true}
	if s.cluster, err = cluster.Start(ctx, config); err != nil {
		return nil, err
	}
	s.Admin = rest.CopyConfig(s.cluster.RESTConfig())
	s.Admin.QPS = -1
	if s.API, err = client.New(s.Admin, client.Options{Scheme: s.Scheme}); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.Log = &audit.Log{Path: s.cluster.AuditLog(), Touch: func(ctx context.Context, mark string) error {
		return client.IgnoreNotFound(s.API.Get(ctx, client.ObjectKey{Name: mark}, &corev1.Namespace{}))
	}}
	pods := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "default"}}
	if err := s.Create(ctx, []client.Object{pods}); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close stops the server.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.cluster.Stop(ctx)
}

// Each does something with each object, several at once.
func Each[T any](ctx context.Context, all []T, do func(context.Context, T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(Writers)
	for _, one := range all {
		group.Go(func() error { return do(ctx, one) })
	}
	return group.Wait()
}

// Create creates objects. Those that exist stay as they are.
func (s *Server) Create(ctx context.Context, objects []client.Object) error {
	return Each(ctx, objects, func(ctx context.Context, o client.Object) error {
		return client.IgnoreAlreadyExists(s.API.Create(ctx, o))
	})
}

// Install installs the custom resources that are in the folder of programs.
func (s *Server) Install(ctx context.Context) error {
	return s.cluster.Install(ctx, cluster.FindResources(s.Bin)...)
}

// Accounts creates an administrator with a kubeconfig for each name, so that the audit log tells the
// requests of the programs apart.
func (s *Server) Accounts(ctx context.Context, all ...string) error {
	for _, account := range all {
		err := s.API.Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "bench-" + account},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: process.SystemNamespace, Name: account}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		})
		if err != nil {
			return err
		}
	}
	return s.Roles(ctx, all...)
}

// Roles writes a kubeconfig for accounts with the roles that Purser ships.
func (s *Server) Roles(ctx context.Context, all ...string) error {
	setup, err := bootstrap.New(s.cluster.RESTConfig())
	if err == nil {
		err = setup.ApplyRoles(ctx)
	}
	for _, account := range all {
		var config *rest.Config
		if err == nil {
			config, err = setup.ConfigFor(ctx, account)
		}
		if err == nil {
			err = kubeconfig.Write(s.kubeconfig(account), config)
		}
	}
	return err
}

func (s *Server) kubeconfig(account string) string {
	return filepath.Join(s.Dir, account+".kubeconfig")
}

// Gibibyte is the size of each volume.
func Gibibyte() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
}

// Pairs creates a bound claim with its volume for each name, which is that of both and the handle.
func (s *Server) Pairs(ctx context.Context, driver, class string, all []string) error {
	return Each(ctx, all, func(ctx context.Context, name string) error {
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				VolumeName: name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class,
				Resources: corev1.VolumeResourceRequirements{Requests: Gibibyte()},
			},
		}
		if err := s.API.Create(ctx, claim); err != nil {
			return err
		}
		return s.bind(ctx, claim, driver)
	})
}

// bind creates the volume of a claim and says that both are bound.
func (s *Server) bind(ctx context.Context, claim *corev1.PersistentVolumeClaim, driver string) error {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: claim.Name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, Capacity: Gibibyte(), StorageClassName: *claim.Spec.StorageClassName,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:                      &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: driver, VolumeHandle: claim.Name,
			}},
		},
	}
	if err := s.API.Create(ctx, pv); err != nil {
		return err
	}
	pv.Status.Phase = corev1.VolumeBound
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, Gibibyte()
	claim.Status.AccessModes = claim.Spec.AccessModes
	return errors.Join(s.API.Status().Update(ctx, pv), s.API.Status().Update(ctx, claim))
}
