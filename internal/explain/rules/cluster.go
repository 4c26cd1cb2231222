package explain

import (
	"slices"
	"strings"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	protection "github.com/purser-csi/purser/internal/protection/rules"
)

// Kind is a kind of API object that explanations read.
type Kind string

// The kinds.
const (
	Claim           Kind = "PersistentVolumeClaim"
	Volume          Kind = "PersistentVolume"
	Class           Kind = "StorageClass"
	AttributesClass Kind = "VolumeAttributesClass"
	Pod             Kind = "Pod"
	Node            Kind = "Node"
	CSINode         Kind = "CSINode"
	CSIDriver       Kind = "CSIDriver"
	Attachment      Kind = "VolumeAttachment"
	Capacity        Kind = "CSIStorageCapacity"
	Lease           Kind = "Lease"
	Event           Kind = "Event"
	Namespace       Kind = "Namespace"
	Quota           Kind = "ResourceQuota"
	Secret          Kind = "Secret"
	Snapshot        Kind = "VolumeSnapshot"
	Content         Kind = "VolumeSnapshotContent"
	SnapshotClass   Kind = "VolumeSnapshotClass"
	Grant           Kind = "ReferenceGrant"
	Deployment      Kind = "Deployment"
	StatefulSet     Kind = "StatefulSet"
	DaemonSet       Kind = "DaemonSet"
	ReplicaSet      Kind = "ReplicaSet"
	Job             Kind = "Job"
	LimitRange      Kind = "LimitRange"
	GroupSnapshot   Kind = "VolumeGroupSnapshot"
	GroupContent    Kind = "VolumeGroupSnapshotContent"
	GroupClass      Kind = "VolumeGroupSnapshotClass"
)

var shortNames = map[Kind]string{
	Claim: "pvc", Volume: "pv", Class: "storageclass", AttributesClass: "volumeattributesclass", Pod: "pod",
	Node: "node", CSINode: "csinode",
	CSIDriver: "csidriver", Attachment: "volumeattachment", Capacity: "csistoragecapacity", Lease: "lease",
	Event: "event", Namespace: "namespace",
	Quota: "resourcequota", Secret: "secret", Snapshot: "volumesnapshot", Content: "volumesnapshotcontent",
	SnapshotClass: "volumesnapshotclass",
	Grant:         "referencegrant", Deployment: "deployment", StatefulSet: "statefulset", DaemonSet: "daemonset",
	ReplicaSet: "replicaset", Job: "job", LimitRange: "limitrange", GroupSnapshot: "volumegroupsnapshot",
	GroupContent: "volumegroupsnapshotcontent", GroupClass: "volumegroupsnapshotclass",
}

// Short returns the name that kubectl takes for the kind. An event may be about an object of any kind.
func (k Kind) Short() string {
	if name, is := shortNames[k]; is {
		return name
	}
	return strings.ToLower(string(k))
}

// plural returns the kind as a word for several objects.
func (k Kind) plural() string {
	switch name := string(k); {
	case strings.HasSuffix(name, "s"):
		return name + "es"
	case strings.HasSuffix(name, "ity"):
		return strings.TrimSuffix(name, "y") + "ies"
	default:
		return name + "s"
	}
}

// IsNamespaced reports whether objects of a kind that can be asked about are in namespaces.
func (k Kind) IsNamespaced() bool {
	return k.isWorkload() || slices.Contains([]Kind{Claim, Pod, Snapshot, GroupSnapshot, Lease, Secret}, k)
}

// isWorkload reports whether objects of the kind create pods.
func (k Kind) isWorkload() bool {
	return slices.Contains([]Kind{Deployment, StatefulSet, DaemonSet, ReplicaSet, Job}, k)
}

// Cluster has the objects of the API server at one time, as far as they were read. Its objects must
// not be changed.
type Cluster struct {
	Now time.Time

	Claims            []*corev1.PersistentVolumeClaim
	Volumes           []*corev1.PersistentVolume
	Classes           []*storagev1.StorageClass
	AttributesClasses []*storagev1.VolumeAttributesClass
	Pods              []*corev1.Pod
	Nodes             []*corev1.Node
	CSINodes          []*storagev1.CSINode
	CSIDrivers        []*storagev1.CSIDriver
	Attachments       []*storagev1.VolumeAttachment
	Capacities        []*storagev1.CSIStorageCapacity
	Leases            []*coordinationv1.Lease
	Events            []*corev1.Event
	Namespaces        []*corev1.Namespace
	Quotas            []*corev1.ResourceQuota
	Secrets           []types.NamespacedName // names only: no value is ever read
	Snapshots         []*snapshotv1.VolumeSnapshot
	Contents          []*snapshotv1.VolumeSnapshotContent
	SnapshotClasses   []*snapshotv1.VolumeSnapshotClass
	Grants            []metav1.Object // ReferenceGrants, which only the gathers read
	Deployments       []*appsv1.Deployment
	StatefulSets      []*appsv1.StatefulSet
	DaemonSets        []*appsv1.DaemonSet
	ReplicaSets       []*appsv1.ReplicaSet
	Jobs              []*batchv1.Job
	LimitRanges       []*corev1.LimitRange
	GroupSnapshots    []*groupv1.VolumeGroupSnapshot
	GroupContents     []*groupv1.VolumeGroupSnapshotContent
	GroupClasses      []*groupv1.VolumeGroupSnapshotClass

	// OlderGroups is the version of group snapshots that is served, if it is older than v1; see
	// [Cluster.NoteGroups].
	OlderGroups string

	// Unread are the kinds that were not read, with the cause: not served, forbidden, not in the
	// dump. Nothing follows from the absence of an object of these kinds.
	Unread map[Kind]string
	// NoneInDump are kinds of which a dump has no object, as a cluster may have none. They are
	// taken to be absent, and the answer says so.
	NoneInDump map[Kind]bool
	// Gather reads the objects above for the decisions of the controllers.
	Gather Gatherer

	index index
}

// index finds objects without a scan. It is built by [Cluster.Prepare].
type index struct {
	claims        map[types.NamespacedName]*corev1.PersistentVolumeClaim
	primes        map[string][]*corev1.PersistentVolumeClaim // prime claims of populators by name
	volumes       map[string]*corev1.PersistentVolume
	classes       map[string]*storagev1.StorageClass
	pods          map[types.NamespacedName]*corev1.Pod
	users         map[types.NamespacedName][]*corev1.Pod // pods by the claim that they name
	podsOn        map[string][]*corev1.Pod               // by node
	antiAffine    []*corev1.Pod                          // pods with a required anti-affinity
	near          *neighbours                            // of the pod that was asked about last
	nodes         map[string]*corev1.Node
	csiNodes      map[string]*storagev1.CSINode
	drivers       map[string]*storagev1.CSIDriver
	attachments   map[string][]*storagev1.VolumeAttachment // by PersistentVolume
	attachedTo    map[string][]*storagev1.VolumeAttachment // by node
	events        map[Ref][]*corev1.Event
	refusals      map[Ref][]*corev1.Event // by the object that was wished for
	secrets       map[types.NamespacedName]bool
	namespaces    map[string]*corev1.Namespace
	snapshots     map[types.NamespacedName]*snapshotv1.VolumeSnapshot
	contents      map[string]*snapshotv1.VolumeSnapshotContent
	snapshotClass map[string]*snapshotv1.VolumeSnapshotClass
	groups        map[types.NamespacedName]*groupv1.VolumeGroupSnapshot
	groupContents map[string]*groupv1.VolumeGroupSnapshotContent
	groupClasses  map[string]*groupv1.VolumeGroupSnapshotClass
	leases        map[types.NamespacedName]*coordinationv1.Lease
	workloads     map[Ref]*workload
	revisions     map[Ref]*workload     // ReplicaSets of Deployments
	podsOf        map[Ref][]*corev1.Pod // pods by their workload
	lastSigns     map[sign]time.Time    // see [Cluster.signs]; nil before the first look
}

// Prepare builds the indexes. It must be called once after the lists are filled.
func (c *Cluster) Prepare() *Cluster {
	x := &c.index
	x.claims = byKey(c.Claims)
	x.primes = primesByName(c.Claims)
	x.pods = byKey(c.Pods)
	x.snapshots = byKey(c.Snapshots)
	x.volumes = byName(c.Volumes)
	x.classes = byName(c.Classes)
	x.nodes = byName(c.Nodes)
	x.csiNodes = byName(c.CSINodes)
	x.drivers = byName(c.CSIDrivers)
	x.namespaces = byName(c.Namespaces)
	x.contents = byName(c.Contents)
	x.snapshotClass = byName(c.SnapshotClasses)
	x.groups = byKey(c.GroupSnapshots)
	x.groupContents = byName(c.GroupContents)
	x.groupClasses = byName(c.GroupClasses)
	x.leases = byKey(c.Leases)
	x.users, x.podsOn = map[types.NamespacedName][]*corev1.Pod{}, map[string][]*corev1.Pod{}
	for _, pod := range c.Pods {
		if pod.Spec.NodeName != "" {
			x.podsOn[pod.Spec.NodeName] = append(x.podsOn[pod.Spec.NodeName], pod)
		}
		if len(requiredAntiAffinity(pod)) > 0 {
			x.antiAffine = append(x.antiAffine, pod)
		}
		for _, name := range protection.ClaimNames(pod) {
			key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
			x.users[key] = append(x.users[key], pod)
		}
	}
	x.attachments = map[string][]*storagev1.VolumeAttachment{}
	x.attachedTo = map[string][]*storagev1.VolumeAttachment{}
	for _, va := range c.Attachments {
		if name := va.Spec.Source.PersistentVolumeName; name != nil {
			x.attachments[*name] = append(x.attachments[*name], va)
			x.attachedTo[va.Spec.NodeName] = append(x.attachedTo[va.Spec.NodeName], va)
		}
	}
	x.events = map[Ref][]*corev1.Event{}
	for _, event := range c.Events {
		about := event.InvolvedObject
		key := Ref{Kind(about.Kind), about.Namespace, about.Name}
		x.events[key] = append(x.events[key], event)
	}
	for _, events := range x.events {
		slices.SortFunc(events, func(a, b *corev1.Event) int { return EventTime(b).Compare(EventTime(a)) })
	}
	c.indexWorkloads()
	c.indexRefusals()
	x.secrets = map[types.NamespacedName]bool{}
	for _, secret := range c.Secrets {
		x.secrets[secret] = true
	}
	return c
}

// object has the methods of an API object that the indexes call.
type object interface {
	GetNamespace() string
	GetName() string
}

func byKey[T object](list []T) map[types.NamespacedName]T {
	m := make(map[types.NamespacedName]T, len(list))
	for _, o := range list {
		m[types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}] = o
	}
	return m
}

func byName[T object](list []T) map[string]T {
	m := make(map[string]T, len(list))
	for _, o := range list {
		m[o.GetName()] = o
	}
	return m
}

// EventTime returns when the event was seen last.
func EventTime(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}

// driverOf returns the CSIDriver object; nil if there is none.
func (c *Cluster) driverOf(name string) *storagev1.CSIDriver { return c.index.drivers[name] }

// lacks reports whether the kind was not read, so that the absence of an object says nothing.
func (c *Cluster) lacks(kind Kind) bool {
	_, unread := c.Unread[kind]
	return unread
}
