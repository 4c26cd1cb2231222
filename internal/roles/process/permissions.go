package process

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/deploy"
)

// Permission is one verb on one resource. Namespace and name are empty for all of them.
type Permission struct {
	Namespace, Group, Resource, Verb, Name string
}

// String returns the permission as text, such as "patch persistentvolumes".
func (p Permission) String() string {
	text := p.Verb + " " + p.Resource
	if p.Group != "" {
		text += "." + p.Group
	}
	if p.Name != "" {
		text += " " + p.Name
	}
	if p.Namespace != "" {
		text += " in namespace " + p.Namespace
	}
	return text
}

// ShippedPermissions returns the permissions in the manifest that Purser ships for a role. The
// rules of its namespaced Role get the given namespace.
func ShippedPermissions(role, namespace string) ([]Permission, error) {
	manifest, err := deploy.RBAC.ReadFile("rbac/" + role + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("permissions of %s: %w", role, err)
	}
	var all []Permission
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096); ; {
		var object struct {
			metav1.TypeMeta `json:",inline"`

			Rules []rbacv1.PolicyRule `json:"rules"`
		}
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("permissions of %s: %w", role, err)
		}
		in := ""
		if object.Kind == "Role" {
			in = namespace
		}
		for _, rule := range object.Rules {
			all = append(all, PermissionsOf(rule, in)...)
		}
	}
}

// PermissionsOf returns the permissions of one rule; an empty namespace means all of them.
func PermissionsOf(rule rbacv1.PolicyRule, namespace string) []Permission {
	var all []Permission
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					all = append(all, Permission{namespace, group, resource, verb, name})
				}
			}
		}
	}
	return all
}

// MissingPermissions asks the API server about each permission, which every user may do (U-11).
func MissingPermissions(ctx context.Context, api *rest.Config, wanted []Permission) ([]Permission, error) {
	client, err := authorizationclient.NewForConfig(api)
	if err != nil {
		return nil, err
	}
	var missing []Permission
	for _, p := range wanted {
		resource, sub, _ := strings.Cut(p.Resource, "/")
		answer, err := client.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: p.Namespace, Group: p.Group, Resource: resource, Subresource: sub, Verb: p.Verb,
				Name: p.Name,
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		if !answer.Status.Allowed {
			missing = append(missing, p)
		}
	}
	return missing, nil
}

// PermissionCheck says which permissions a role needs, and what to log about each that it lacks.
type PermissionCheck struct {
	Role      string            // the manifest deploy/rbac/ROLE.yaml has the permissions
	Wanted    []Permission      // what the enabled controllers and flags need
	Optional  map[string]string // by resource: the effect of lacking a permission that not every cluster needs
	Manifests map[string]string // by resource: the manifest of a permission that is not in the role's own
}

// CheckPermissions logs each permission that a role lacks, once. A missing permission never ends
// the process: it may be granted later. problem is why the checks are not known.
func CheckPermissions(ctx context.Context, api *rest.Config, checks []PermissionCheck, problem error) {
	log := logr.FromContextOrDiscard(ctx)
	for _, check := range checks {
		var missing []Permission
		if problem == nil {
			missing, problem = MissingPermissions(ctx, api, check.Wanted)
		}
		check.Log(log, missing)
	}
	if problem != nil && ctx.Err() == nil {
		log.V(2).Info("cannot check the permissions", "problem", problem.Error())
	}
}

// Log names each missing permission and the manifest that grants it.
func (c PermissionCheck) Log(log logr.Logger, missing []Permission) {
	for _, p := range missing {
		if effect := c.Optional[p.Resource]; effect != "" {
			log.Info("permission not granted: "+p.String(), "effect", effect)
			continue
		}
		manifest := cmp.Or(c.Manifests[p.Resource], "deploy/rbac/"+c.Role+".yaml")
		log.Error(nil, "missing permission: "+p.String()+"; compare the role with "+manifest)
	}
}

// SystemNamespace is the namespace of the service accounts and leases in the shipped manifests.
const SystemNamespace = "purser-system"
