package roles

import (
	"bytes"
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

// permission is one verb on one resource. The namespace is empty for all of them.
type permission struct {
	Namespace, Group, Resource, Verb string
}

func (p permission) String() string {
	text := p.Verb + " " + p.Resource
	if p.Group != "" {
		text += "." + p.Group
	}
	if p.Namespace != "" {
		text += " in namespace " + p.Namespace
	}
	return text
}

// shippedPermissions are those of the manifest that Purser ships for a role. Those of its Role count in the namespace given.
func shippedPermissions(role, namespace string) ([]permission, error) {
	manifest, err := deploy.RBAC.ReadFile("rbac/" + role + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("permissions of %s: %w", role, err)
	}
	var all []permission
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
			all = append(all, permissionsOf(rule, in)...)
		}
	}
}

func permissionsOf(rule rbacv1.PolicyRule, namespace string) []permission {
	var all []permission
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				all = append(all, permission{namespace, group, resource, verb})
			}
		}
	}
	return all
}

// missingPermissions asks the API server about each permission, which every user may do (U-11).
func missingPermissions(ctx context.Context, api *rest.Config, wanted []permission) ([]permission, error) {
	client, err := authorizationclient.NewForConfig(api)
	if err != nil {
		return nil, err
	}
	var missing []permission
	for _, p := range wanted {
		resource, sub, _ := strings.Cut(p.Resource, "/")
		answer, err := client.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: p.Namespace, Group: p.Group, Resource: resource, Subresource: sub, Verb: p.Verb,
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

// optional permissions of a role are for features that not every driver or class uses; the text says which.
var optional = map[string]map[string]string{"csi-provisioner": {
	"secrets":                 "needed only for StorageClasses that name a secret",
	"volumesnapshots":         "needed only to restore snapshots",
	"volumesnapshotcontents":  "needed only to restore snapshots",
	"volumeattributesclasses": "needed only for claims with a VolumeAttributesClass",
	"referencegrants":         "needed only for sources in another namespace",
}}

// wantedPermissions are those shipped that this driver and these flags need.
func (w *wiring) wantedPermissions() ([]permission, error) {
	namespace := w.role.Election.namespace()
	shipped, err := shippedPermissions("csi-provisioner", namespace)
	if err != nil {
		return nil, err
	}
	unneeded := map[string]bool{
		"nodes": !w.topology(), "csinodes": !w.topology(), "volumeattachments": !w.attaches(),
		"leases": !w.role.Election.Enabled && w.role.Intents == intentsOff,
	}
	var wanted []permission
	for _, p := range shipped {
		if !unneeded[p.Resource] {
			wanted = append(wanted, p)
		}
	}
	if w.role.readsNamespaces() { // U-51
		wanted = append(wanted, permission{Resource: "namespaces", Verb: "get"})
	}
	if w.role.Election.takesEndpoints() { // RB-12
		for _, verb := range []string{"get", "create", "update"} {
			wanted = append(wanted, permission{Namespace: namespace, Resource: "endpoints", Verb: verb})
		}
	}
	return wanted, nil
}

func (w *wiring) checkPermissions(ctx context.Context) {
	checkPermissions(ctx, w.api, "csi-provisioner", w.wantedPermissions)
}

// checkPermissions logs each permission that a role lacks, once. It is never the end: what is missing may not be needed, or may be
// granted in a moment.
func checkPermissions(ctx context.Context, api *rest.Config, role string, wanted func() ([]permission, error)) {
	log := logr.FromContextOrDiscard(ctx)
	missing, err := wanted()
	if err == nil {
		missing, err = missingPermissions(ctx, api, missing)
	}
	if err != nil {
		if ctx.Err() == nil {
			log.V(2).Info("cannot check the permissions", "problem", err.Error())
		}
		return
	}
	tellMissing(log, missing, role)
}

// tellMissing names each missing permission, and the manifest that has it.
func tellMissing(log logr.Logger, missing []permission, role string) {
	for _, p := range missing {
		if why := optional[role][p.Resource]; why != "" {
			log.Info("permission not granted: "+p.String(), "effect", why)
			continue
		}
		log.Error(nil, "missing permission: "+p.String()+"; compare the role with deploy/rbac/"+role+".yaml")
	}
}
