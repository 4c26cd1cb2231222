package inventory

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/names"
)

// usersOfLimits are the kinds of what creates pods and claims.
var usersOfLimits = []explain.Kind{
	explain.Pod, explain.Deployment, explain.StatefulSet, explain.DaemonSet, explain.ReplicaSet, explain.Job,
}

// usersOfGroups are the kinds that are stuck because of a group snapshot, or whose users are listed.
var usersOfGroups = append([]explain.Kind{
	explain.Claim, explain.Snapshot, explain.Content, explain.GroupSnapshot, explain.GroupContent, explain.GroupClass,
	explain.CSIDriver, explain.Lease, explain.Secret, explain.Namespace,
}, usersOfLimits...)

// olderGroups lists a kind of group snapshots in the version before v1, whose fields are the same.
func olderGroups(kind explain.Kind) func() client.ObjectList {
	return func() client.ObjectList {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{
			Group: names.GroupSnapshotGroup, Version: "v1beta2", Kind: string(kind) + "List",
		})
		return list
	}
}

// intoGroups is [into] for a kind of group snapshots, of any version.
func intoGroups[T any, P interface {
	*T
	client.Object
}](kind explain.Kind, field func(*explain.Cluster) *[]P) func(*explain.Cluster, client.Object) bool {
	typed := into(field)
	return func(c *explain.Cluster, o client.Object) bool {
		older, is := o.(*unstructured.Unstructured)
		if !is {
			return typed(c, o)
		}
		of := older.GroupVersionKind()
		if of.Group != names.GroupSnapshotGroup || of.Kind != string(kind) {
			return false
		}
		object := P(new(T))
		if runtime.DefaultUnstructuredConverter.FromUnstructured(older.Object, object) != nil {
			return false
		}
		object.GetObjectKind().SetGroupVersionKind(groups.WithKind(string(kind)))
		return typed(c, object)
	}
}

// grantList lists ReferenceGrants, of which a cluster without Gateway API has none.
func grantList(version string) func() client.ObjectList {
	return func() client.ObjectList {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{
			Group:   names.GatewayGroup,
			Version: version,
			Kind:    "ReferenceGrantList",
		})
		return list
	}
}

// addGrant takes a ReferenceGrant of any version. Its fields are the same in all (H-46).
func addGrant(c *explain.Cluster, o client.Object) bool {
	grant, ok := o.(*unstructured.Unstructured)
	if !ok || !isGrant(grant.GroupVersionKind()) {
		return false
	}
	grant = grant.DeepCopy()
	grant.SetGroupVersionKind(grants.GroupVersion().WithKind(string(explain.Grant)))
	c.Grants = append(c.Grants, grant)
	return true
}

func isGrant(of schema.GroupVersionKind) bool {
	return of.Group == names.GatewayGroup && of.Kind == string(explain.Grant)
}
