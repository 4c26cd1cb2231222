package inventory

import (
	"fmt"

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

// listOf lists a kind in a version that is not registered as a type.
func listOf(group, version string, kind explain.Kind) func() client.ObjectList {
	return func() client.ObjectList {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: string(kind) + "List"})
		return list
	}
}

// olderGroups lists a kind of group snapshots in the versions before v1; see [asGroupsV1].
func olderGroups(kind explain.Kind) []func() client.ObjectList {
	return []func() client.ObjectList{
		listOf(names.GroupSnapshotGroup, "v1beta2", kind), listOf(names.GroupSnapshotGroup, "v1beta1", kind),
	}
}

// asGroupsV1 changes an object of group snapshots of an older version into one of v1, and
// returns the version. The fields of v1beta2 are the same. In v1beta1 the snapshots of a group are
// pairs of handles.
func asGroupsV1(content map[string]any) (version string) {
	of := schema.FromAPIVersionAndKind(fmt.Sprint(content["apiVersion"]), "")
	content["apiVersion"] = groups.String()
	status, _ := content["status"].(map[string]any)
	if pairs, has := status["volumeSnapshotHandlePairList"]; has && status["volumeSnapshotInfoList"] == nil {
		status["volumeSnapshotInfoList"] = pairs
		delete(status, "volumeSnapshotHandlePairList")
	}
	return of.Version
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
		object, content := P(new(T)), older.DeepCopy().Object
		version := asGroupsV1(content)
		if runtime.DefaultUnstructuredConverter.FromUnstructured(content, object) != nil || !typed(c, object) {
			return false
		}
		c.NoteGroups(version)
		return true
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
