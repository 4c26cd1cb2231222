package sources

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	source "github.com/purser-csi/purser/internal/sources/rules"
)

// grantVersions are the versions of ReferenceGrants, the newest first (H-46).
var grantVersions = []string{"v1", "v1beta1"}

// Grants lists the ReferenceGrants in a namespace; none where they are not served or may not be read.
func Grants(ctx context.Context, from client.Reader, namespace string) ([]source.Grant, error) {
	s := source.State{}
	s.Ref.Namespace = namespace
	err := readGrants(ctx, from, &s)
	return s.Grants, err
}

// readGrants lists the ReferenceGrants in the namespace of a source. The objects are read without
// their Go types, which would bring all of Gateway API into the program for two lists of names.
func readGrants(ctx context.Context, from client.Reader, s *source.State) error {
	for _, version := range grantVersions {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{
			Group:   names.GatewayGroup,
			Version: version,
			Kind:    "ReferenceGrantList",
		})
		err := from.List(ctx, list, client.InNamespace(s.Ref.Namespace))
		if kube.IsUnserved(err) {
			s.Unread.Resource = source.GrantResource
			continue
		}
		if s.Unread, err = unread(err, source.GrantResource); err != nil {
			return fmt.Errorf("read the ReferenceGrants in namespace %q: %w", s.Ref.Namespace, err)
		}
		for i := range list.Items {
			s.Grants = append(s.Grants, newGrant(&list.Items[i]))
		}
		return nil
	}
	return nil
}

func newGrant(o *unstructured.Unstructured) (g source.Grant) {
	from, _, _ := unstructured.NestedSlice(o.Object, "spec", "from")
	for _, one := range from {
		g.From = append(g.From, source.GrantFrom{
			Group:     text(one, "group"),
			Kind:      text(one, "kind"),
			Namespace: text(one, "namespace"),
		})
	}
	to, _, _ := unstructured.NestedSlice(o.Object, "spec", "to")
	for _, one := range to {
		g.To = append(g.To, source.GrantTo{Group: text(one, "group"), Kind: text(one, "kind"), Name: text(one, "name")})
	}
	return g
}

// text returns a field of an entry; empty for one that is not there or is no text.
func text(entry any, field string) string {
	fields, _ := entry.(map[string]any)
	value, _ := fields[field].(string)
	return value
}
