package explain

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Object is an object that can be explained, with its labels.
type Object struct {
	Ref    Ref
	Labels map[string]string
}

// Objects returns the objects of the kinds that [Cluster.Explain] answers about.
func (c *Cluster) Objects() (all []Object) {
	return slices.Concat(
		listed(Claim, c.Claims), listed(Volume, c.Volumes), listed(Pod, c.Pods), listed(Attachment, c.Attachments),
		listed(Snapshot, c.Snapshots), listed(Node, c.Nodes), listed(Class, c.Classes), listed(Namespace, c.Namespaces),
		listed(Deployment, c.Deployments), listed(StatefulSet, c.StatefulSets), listed(DaemonSet, c.DaemonSets),
		listed(ReplicaSet, c.ReplicaSets), listed(Job, c.Jobs), listed(Content, c.Contents),
		listed(GroupSnapshot, c.GroupSnapshots), listed(GroupContent, c.GroupContents),
		listed(CSINode, c.CSINodes), listed(CSIDriver, c.CSIDrivers), listed(AttributesClass, c.AttributesClasses),
		listed(SnapshotClass, c.SnapshotClasses), listed(GroupClass, c.GroupClasses), listed(Lease, c.Leases),
		c.listedSecrets(),
	)
}

func (c *Cluster) listedSecrets() (all []Object) {
	for _, name := range c.Secrets {
		all = append(all, Object{Ref{Secret, name.Namespace, name.Name}, nil})
	}
	return all
}

func listed[T metav1.Object](kind Kind, objects []T) (all []Object) {
	for _, o := range objects {
		all = append(all, Object{Ref{kind, o.GetNamespace(), o.GetName()}, o.GetLabels()})
	}
	return all
}

// Similar returns the objects that may be meant by the name of an object that does not exist: the
// same name in another namespace, then at most three names of the same namespace with few changes.
func (c *Cluster) Similar(ref Ref) (similar []Ref) {
	const most = 3
	var near []Ref
	for _, o := range c.Objects() {
		switch {
		case o.Ref.Kind != ref.Kind:
		case o.Ref.Name == ref.Name && o.Ref.Namespace != ref.Namespace:
			similar = append(similar, o.Ref)
		case o.Ref.Namespace == ref.Namespace && IsNear(o.Ref.Name, ref.Name):
			near = append(near, o.Ref)
		}
	}
	slices.SortStableFunc(near, func(a, b Ref) int {
		return cmp.Compare(distance(a.Name, ref.Name), distance(b.Name, ref.Name))
	})
	return append(similar[:min(len(similar), most)], near[:min(len(near), most)]...)
}

// IsNear reports whether a word may be a mistyped other one: at most one change in three
// characters.
func IsNear(a, b string) bool { return distance(a, b) <= max(1, len(b)/3) }
