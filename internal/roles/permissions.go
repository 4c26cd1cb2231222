package roles

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	storageclient "k8s.io/client-go/kubernetes/typed/storage/v1"
	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/deploy"
	"github.com/purser-csi/purser/internal/core/secretref"
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

// optional permissions of a role are for what not every class uses; the text says which.
var optional = map[string]map[string]string{"csi-provisioner": {
	"secrets": "StorageClasses of this driver name secrets, which are read where the claims need them; deploy/optional/csi-provisioner-secrets.yaml gives it for a namespace",
}}

// manifestOf are the manifests of what a flag needs beyond the role; all else is in that of the role (RB-12, U-51).
var manifestOf = map[string]map[string]string{"csi-provisioner": {
	"namespaces": "deploy/optional/csi-provisioner-namespaces.yaml",
	"endpoints":  "deploy/optional/csi-provisioner-endpoints.yaml",
}}

// unused are the verbs of upstream's role that nothing here needs: events are not looked at, and leases are made once and kept (RB-4, RB-11).
var unused = map[string][]string{"events": {"list", "watch", "update"}, "leases": {"list", "watch", "delete"}}

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
		if !unneeded[p.Resource] && !slices.Contains(unused[p.Resource], p.Verb) {
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

// secretPermissions are for the secrets that the classes of a driver name for CreateVolume and DeleteVolume. Where the namespace depends on the
// claim, all are meant (RB-8, U-42).
func secretPermissions(classes []storagev1.StorageClass, driver string) []permission {
	in := map[string]bool{}
	for _, class := range classes {
		if class.Provisioner != driver {
			continue
		}
		for _, kind := range []secretref.Kind{secretref.Provisioner, secretref.Deletion} {
			switch namespace := secretref.Namespace(kind, class.Parameters); {
			case strings.Contains(namespace, "$"):
				in[""] = true
			case namespace != "":
				in[namespace] = true
			}
		}
	}
	var wanted []permission
	for _, namespace := range slices.Sorted(maps.Keys(in)) {
		wanted = append(wanted, permission{Namespace: namespace, Resource: "secrets", Verb: "get"})
	}
	return wanted
}

func (w *wiring) checkPermissions(ctx context.Context) {
	checkPermissions(ctx, w.api, "csi-provisioner", func() ([]permission, error) {
		wanted, err := w.wantedPermissions()
		return append(wanted, secretPermissions(w.classes(ctx), w.driver.Name)...), err
	})
}

// classes are those that the API server has; none when it does not say, which the permissions to read them tell of.
func (w *wiring) classes(ctx context.Context) []storagev1.StorageClass {
	client, err := storageclient.NewForConfig(w.api)
	if err != nil {
		return nil
	}
	list, err := client.StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	return list.Items
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
		manifest := cmp.Or(manifestOf[role][p.Resource], "deploy/rbac/"+role+".yaml")
		log.Error(nil, "missing permission: "+p.String()+"; compare the role with "+manifest)
	}
}
