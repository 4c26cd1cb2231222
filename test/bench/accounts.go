package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/deploy"
)

// shippedRoles are those of the manifests, one for each account but the plane's, which has both.
var shippedRoles = map[string]string{
	accountControllers: "purser-controllers",
	accountProvisioner: "purser-csi-provisioner",
}

// grant applies the shipped manifests, gives the plane what they give to the two others, and the
// load everything.
func (c *contest) grant(ctx context.Context) error {
	for account := range shippedRoles {
		if err := c.apply(ctx, "rbac/"+account+".yaml"); err != nil {
			return fmt.Errorf("%s: %w", account, err)
		}
	}
	plane := metav1.ObjectMeta{Namespace: accountNamespace, Name: accountPlane}
	if err := c.rig.api.Create(ctx, &corev1.ServiceAccount{ObjectMeta: plane}); err != nil {
		return err
	}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: plane.Namespace, Name: plane.Name}}
	for _, role := range shippedRoles {
		everywhere := metav1.ObjectMeta{Name: "plane-" + role}
		here := metav1.ObjectMeta{Namespace: plane.Namespace, Name: "plane-" + role}
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
		local := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role}
		for _, binding := range []client.Object{
			&rbacv1.ClusterRoleBinding{ObjectMeta: everywhere, Subjects: subjects, RoleRef: ref},
			&rbacv1.RoleBinding{ObjectMeta: here, Subjects: subjects, RoleRef: local},
		} {
			if err := c.rig.api.Create(ctx, binding); err != nil {
				return fmt.Errorf("%T: %w", binding, err)
			}
		}
	}
	load := metav1.ObjectMeta{Namespace: accountNamespace, Name: accountLoad}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: load},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "bench-load"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: load.Namespace, Name: load.Name}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		},
	} {
		if err := c.rig.api.Create(ctx, object); err != nil {
			return fmt.Errorf("%T: %w", object, err)
		}
	}
	return nil
}

// loadAsAccount has the load, and with it the floors, show a token as the contenders do: the API
// server verifies a certificate anew with each request, and took a fifteenth of its time for that.
func (c *contest) loadAsAccount(ctx context.Context) error {
	path, err := c.kubeconfig(ctx, accountLoad)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	config.QPS = -1 // no limit
	c.rig.api, err = client.NewWithWatch(config, client.Options{Scheme: c.rig.api.Scheme()})
	return err
}

func (c *contest) apply(ctx context.Context, path string) error {
	manifest, err := deploy.RBAC.ReadFile(path)
	if err != nil {
		return err
	}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = c.rig.api.Apply(
				ctx,
				client.ApplyConfigurationFromUnstructured(object),
				client.FieldOwner("bench"),
				client.ForceOwnership,
			)
		}
		if err != nil {
			return err
		}
	}
}
