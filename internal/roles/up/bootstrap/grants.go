package bootstrap

import (
	"bytes"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/deploy"
	"github.com/purser-csi/purser/internal/kube"
)

const grantsDefinition = "referencegrants.gateway.networking.k8s.io"

// InstallGrants has claims name sources in other namespaces: it installs the kind ReferenceGrant, unless
// the cluster has it, for example from Gateway API.
func (f Setup) InstallGrants(ctx context.Context) error {
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
	}}
	have, err := kube.Get(ctx, f.Client, types.NamespacedName{Name: grantsDefinition}, client.Object(definition))
	if err != nil {
		return fmt.Errorf("%s: %w", grantsDefinition, err)
	}
	if have != nil {
		return nil
	}
	return f.Apply(ctx, "referencegrants.yaml", bytes.NewReader(deploy.ReferenceGrants))
}

// ApplyDevelopment applies the permissions that a development cluster has beyond deploy/rbac.
func (f Setup) ApplyDevelopment(ctx context.Context) error {
	if err := f.Apply(ctx, "secrets.yaml", bytes.NewReader(deploy.DevelopmentSecrets)); err != nil {
		return err
	}
	return f.Apply(ctx, "csi-provisioner-grants.yaml", bytes.NewReader(deploy.Grants))
}
