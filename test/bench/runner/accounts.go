package runner

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/deploy"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/up/bootstrap"
	"github.com/purser-csi/purser/test/e2e/audit"
)

// The audit log tells the requests of the programs apart by their accounts.

// User is the name of an account in the audit log.
func User(account string) string { return audit.ServiceAccount(process.SystemNamespace, account) }

// Roles creates the accounts of the roles with the permissions that Purser ships, and no admission
// policies, and writes a kubeconfig for each of those that are named.
func (r *Run) Roles(ctx context.Context, accounts ...string) error {
	setup, err := bootstrap.New(r.Cluster.RESTConfig())
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: process.SystemNamespace}}
	if err := r.Create(ctx, namespace); err != nil {
		return err
	}
	files, err := fs.Glob(deploy.RBAC, "rbac/*.yaml")
	if err != nil {
		return err
	}
	for _, path := range files {
		file, err := deploy.RBAC.Open(path)
		if err == nil {
			err = setup.Apply(ctx, path, file)
		}
		if err != nil {
			return err
		}
	}
	return r.writeKubeconfigs(ctx, setup, accounts)
}

// Bound creates an account with the permissions of ClusterRoles, and of the Roles of these names in the
// namespace of Purser, and writes a kubeconfig for it.
func (r *Run) Bound(ctx context.Context, account string, clusterRoles, roles []string) error {
	meta := metav1.ObjectMeta{Namespace: process.SystemNamespace, Name: account}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: meta.Namespace, Name: account}}
	objects := []client.Object{&corev1.ServiceAccount{ObjectMeta: meta}}
	for _, role := range clusterRoles {
		objects = append(objects, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "bench-" + account + "-" + role}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		})
	}
	for _, role := range roles {
		objects = append(objects, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: meta.Namespace, Name: "bench-" + account + "-" + role},
			Subjects:   subjects,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		})
	}
	if err := r.Create(ctx, objects...); err != nil {
		return err
	}
	setup, err := bootstrap.New(r.Cluster.RESTConfig())
	if err != nil {
		return err
	}
	return r.writeKubeconfigs(ctx, setup, []string{account})
}

// Administrators creates accounts with all permissions, and writes a kubeconfig for each.
func (r *Run) Administrators(ctx context.Context, accounts ...string) error {
	if err := r.Roles(ctx); err != nil {
		return err
	}
	for _, account := range accounts {
		if err := r.Bound(ctx, account, []string{"cluster-admin"}, nil); err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) kubeconfig(account string) string { return filepath.Join(r.Dir, account+".kubeconfig") }

func (r *Run) writeKubeconfigs(ctx context.Context, setup bootstrap.Setup, accounts []string) error {
	for _, account := range accounts {
		config, err := setup.ConfigFor(ctx, account)
		if err == nil {
			err = r.WriteKubeconfig(account, config)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// WriteKubeconfig writes a kubeconfig with the address, the authority and the token of a configuration,
// for the programs with this account.
func (r *Run) WriteKubeconfig(account string, config *rest.Config) error {
	k := clientcmdapi.NewConfig()
	k.Clusters["bench"] = &clientcmdapi.Cluster{
		Server: config.Host, CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData,
	}
	k.AuthInfos["bench"] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	k.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: "bench"}
	k.CurrentContext = "bench"
	if err := clientcmd.WriteToFile(*k, r.kubeconfig(account)); err != nil {
		return fmt.Errorf("write %s: %w", r.kubeconfig(account), err)
	}
	return nil
}

// Config returns the configuration of an account that has a kubeconfig, without limits.
func (r *Run) Config(account string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", r.kubeconfig(account))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.kubeconfig(account), err)
	}
	config.QPS = -1 // no limit
	return config, nil
}
