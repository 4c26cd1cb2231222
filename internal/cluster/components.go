package cluster

import "slices"

// Component is one program of the control plane, by its executable's name.
type Component string

// The components. The first two always run, the others where Config.Components has them.
const (
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	Scheduler         Component = "kube-scheduler"
	ControllerManager Component = "kube-controller-manager"
)

// Components is a set of optional components.
type Components []Component

// Has reports whether the set contains a component.
func (cs Components) Has(c Component) bool { return slices.Contains(cs, c) }

// Programs are the names of all programs that a cluster with these optional components needs.
func (cs Components) Programs() []string {
	names := []string{string(Etcd), string(APIServer)}
	for _, c := range cs {
		names = append(names, string(c))
	}
	return names
}

// HousekeepingControllers returns the controllers of kube-controller-manager that are needed to use
// and delete namespaces, for garbage collection, for the aggregation of ClusterRoles and for quotas:
// without its controller a ResourceQuota refuses every object that it counts. The node controllers are
// not among them, since they would taint nodes without a kubelet.
func HousekeepingControllers() []string {
	return []string{
		"clusterrole-aggregation-controller",
		"garbage-collector-controller",
		"namespace-controller",
		"resourcequota-controller",
		"root-ca-certificate-publisher-controller",
		"serviceaccount-controller",
	}
}

// WorkloadControllers returns the controllers of kube-controller-manager that create pods, and the one
// that deletes finished Jobs.
func WorkloadControllers() []string {
	return []string{
		"cronjob-controller",
		"daemonset-controller",
		"deployment-controller",
		"job-controller",
		"replicaset-controller",
		"replicationcontroller-controller",
		"statefulset-controller",
		"ttl-after-finished-controller",
	}
}

// VolumeControllers are those controllers of kube-controller-manager that a provisioner relies on.
func VolumeControllers() []string {
	return []string{
		"ephemeral-volume-controller",
		"persistentvolume-binder-controller",
		"persistentvolume-protection-controller",
		"persistentvolumeclaim-protection-controller",
		"volumeattributesclass-protection-controller",
	}
}
