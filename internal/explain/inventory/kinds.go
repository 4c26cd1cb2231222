package inventory

import (
	"slices"
	"sync"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/names"
)

// Scheme returns the types that explanations read. It must not be changed.
var Scheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(storagev1.AddToScheme(scheme))
	utilruntime.Must(appsv1.AddToScheme(scheme))
	utilruntime.Must(coordinationv1.AddToScheme(scheme))
	utilruntime.Must(snapshotv1.AddToScheme(scheme))
	utilruntime.Must(batchv1.AddToScheme(scheme))
	utilruntime.Must(groupv1.AddToScheme(scheme))
	return scheme
})

// kind is how one kind is listed, and where its objects go.
// A kind that is not served in the version of list is read in the first of older that is, if it has any.
type kind struct {
	name       explain.Kind
	resource   schema.GroupVersionResource
	namespaced bool
	list       func() client.ObjectList
	add        func(*explain.Cluster, client.Object) bool // false: the object is of another kind
	older      []func() client.ObjectList
	// usedBy are the kinds of objects whose explanation reads this one; nil for all. Without an object,
	// and for a dump, every kind is read.
	usedBy []explain.Kind
}

// VersionOf returns the version in which objects of a kind are read.
func VersionOf(name explain.Kind) schema.GroupVersionKind {
	for _, k := range kinds {
		if k.name == name {
			return k.resource.GroupVersion().WithKind(string(name))
		}
	}
	return schema.GroupVersionKind{Kind: string(name)}
}

// isNeeded reports whether objects of the kind are read for an explanation of objects of the asked kinds.
func (k kind) isNeeded(asked []explain.Kind) bool {
	return len(asked) == 0 || k.usedBy == nil ||
		slices.ContainsFunc(asked, func(a explain.Kind) bool { return slices.Contains(k.usedBy, a) })
}

// into returns the add function for one field of the cluster.
func into[T client.Object](field func(*explain.Cluster) *[]T) func(*explain.Cluster, client.Object) bool {
	return func(c *explain.Cluster, o client.Object) bool {
		object, ok := o.(T)
		if ok {
			list := field(c)
			*list = append(*list, object)
		}
		return ok
	}
}

func addSecret(c *explain.Cluster, o client.Object) bool {
	_, full := o.(*corev1.Secret)
	meta, partial := o.(*metav1.PartialObjectMetadata)
	if full || partial && meta.Kind == "Secret" {
		c.Secrets = append(c.Secrets, types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()})
		return true
	}
	return false
}

func secretNames() client.ObjectList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	return list
}

var (
	core    = corev1.SchemeGroupVersion
	storage = storagev1.SchemeGroupVersion
	apps    = appsv1.SchemeGroupVersion
	snaps   = snapshotv1.SchemeGroupVersion
	groups  = groupv1.SchemeGroupVersion
	grants  = schema.GroupVersionResource{Group: names.GatewayGroup, Version: "v1", Resource: "referencegrants"}
)

// kinds are all kinds that explanations read, each with its one LIST.
var kinds = []kind{
	{
		explain.Claim, core.WithResource("persistentvolumeclaims"), true,
		func() client.ObjectList { return &corev1.PersistentVolumeClaimList{} },
		into(func(c *explain.Cluster) *[]*corev1.PersistentVolumeClaim { return &c.Claims }), nil, nil,
	},
	{
		explain.Volume, core.WithResource("persistentvolumes"), false,
		func() client.ObjectList { return &corev1.PersistentVolumeList{} },
		into(func(c *explain.Cluster) *[]*corev1.PersistentVolume { return &c.Volumes }), nil, nil,
	},
	{
		explain.Class, storage.WithResource("storageclasses"), false,
		func() client.ObjectList { return &storagev1.StorageClassList{} },
		into(func(c *explain.Cluster) *[]*storagev1.StorageClass { return &c.Classes }), nil, nil,
	},
	{
		explain.AttributesClass, storage.WithResource("volumeattributesclasses"), false,
		func() client.ObjectList { return &storagev1.VolumeAttributesClassList{} },
		into(func(c *explain.Cluster) *[]*storagev1.VolumeAttributesClass { return &c.AttributesClasses }), nil, nil,
	},
	{
		explain.Pod, core.WithResource("pods"), true, func() client.ObjectList { return &corev1.PodList{} },
		into(func(c *explain.Cluster) *[]*corev1.Pod { return &c.Pods }), nil, nil,
	},
	{
		explain.Node, core.WithResource("nodes"), false, func() client.ObjectList { return &corev1.NodeList{} },
		into(func(c *explain.Cluster) *[]*corev1.Node { return &c.Nodes }), nil, nil,
	},
	{
		explain.CSINode, storage.WithResource("csinodes"), false,
		func() client.ObjectList { return &storagev1.CSINodeList{} },
		into(func(c *explain.Cluster) *[]*storagev1.CSINode { return &c.CSINodes }), nil, nil,
	},
	{
		explain.CSIDriver, storage.WithResource("csidrivers"), false,
		func() client.ObjectList { return &storagev1.CSIDriverList{} },
		into(func(c *explain.Cluster) *[]*storagev1.CSIDriver { return &c.CSIDrivers }), nil, nil,
	},
	{
		explain.Attachment, storage.WithResource("volumeattachments"), false,
		func() client.ObjectList { return &storagev1.VolumeAttachmentList{} },
		into(func(c *explain.Cluster) *[]*storagev1.VolumeAttachment { return &c.Attachments }), nil, nil,
	},
	{
		explain.Capacity, storage.WithResource("csistoragecapacities"), true,
		func() client.ObjectList { return &storagev1.CSIStorageCapacityList{} },
		into(func(c *explain.Cluster) *[]*storagev1.CSIStorageCapacity { return &c.Capacities }), nil, nil,
	},
	{
		explain.Lease, coordinationv1.SchemeGroupVersion.WithResource("leases"), true,
		func() client.ObjectList { return &coordinationv1.LeaseList{} },
		into(func(c *explain.Cluster) *[]*coordinationv1.Lease { return &c.Leases }), nil, nil,
	},
	{
		explain.Event, core.WithResource("events"), true, func() client.ObjectList { return &corev1.EventList{} },
		into(func(c *explain.Cluster) *[]*corev1.Event { return &c.Events }), nil, nil,
	},
	{
		explain.Namespace, core.WithResource("namespaces"), false,
		func() client.ObjectList { return &corev1.NamespaceList{} },
		into(func(c *explain.Cluster) *[]*corev1.Namespace { return &c.Namespaces }), nil, nil,
	},
	{
		explain.Quota, core.WithResource("resourcequotas"), true,
		func() client.ObjectList { return &corev1.ResourceQuotaList{} },
		into(func(c *explain.Cluster) *[]*corev1.ResourceQuota { return &c.Quotas }), nil, nil,
	},
	{explain.Secret, core.WithResource("secrets"), true, secretNames, addSecret, nil, nil},
	{
		explain.Snapshot, snaps.WithResource("volumesnapshots"), true,
		func() client.ObjectList { return &snapshotv1.VolumeSnapshotList{} },
		into(func(c *explain.Cluster) *[]*snapshotv1.VolumeSnapshot { return &c.Snapshots }), nil, nil,
	},
	{
		explain.Content, snaps.WithResource("volumesnapshotcontents"), false,
		func() client.ObjectList { return &snapshotv1.VolumeSnapshotContentList{} },
		into(func(c *explain.Cluster) *[]*snapshotv1.VolumeSnapshotContent { return &c.Contents }), nil, nil,
	},
	{
		explain.SnapshotClass, snaps.WithResource("volumesnapshotclasses"), false,
		func() client.ObjectList { return &snapshotv1.VolumeSnapshotClassList{} },
		into(func(c *explain.Cluster) *[]*snapshotv1.VolumeSnapshotClass { return &c.SnapshotClasses }), nil, nil,
	},
	{
		explain.Grant, grants, true,
		listOf(grants.Group, grants.Version, explain.Grant), addGrant,
		[]func() client.ObjectList{listOf(grants.Group, "v1beta1", explain.Grant)},
		nil,
	},
	{
		explain.Deployment, apps.WithResource("deployments"), true,
		func() client.ObjectList { return &appsv1.DeploymentList{} },
		into(func(c *explain.Cluster) *[]*appsv1.Deployment { return &c.Deployments }), nil, nil,
	},
	{
		explain.StatefulSet, apps.WithResource("statefulsets"), true,
		func() client.ObjectList { return &appsv1.StatefulSetList{} },
		into(func(c *explain.Cluster) *[]*appsv1.StatefulSet { return &c.StatefulSets }), nil, nil,
	},
	{
		explain.DaemonSet, apps.WithResource("daemonsets"), true,
		func() client.ObjectList { return &appsv1.DaemonSetList{} },
		into(func(c *explain.Cluster) *[]*appsv1.DaemonSet { return &c.DaemonSets }), nil, nil,
	},
	{
		explain.ReplicaSet, apps.WithResource("replicasets"), true,
		func() client.ObjectList { return &appsv1.ReplicaSetList{} },
		into(func(c *explain.Cluster) *[]*appsv1.ReplicaSet { return &c.ReplicaSets }), nil, nil,
	},
	{
		explain.Job, batchv1.SchemeGroupVersion.WithResource("jobs"), true,
		func() client.ObjectList { return &batchv1.JobList{} },
		into(func(c *explain.Cluster) *[]*batchv1.Job { return &c.Jobs }), nil,
		[]explain.Kind{explain.Job},
	},
	{
		explain.LimitRange, core.WithResource("limitranges"), true,
		func() client.ObjectList { return &corev1.LimitRangeList{} },
		into(func(c *explain.Cluster) *[]*corev1.LimitRange { return &c.LimitRanges }), nil, usersOfLimits,
	},
	{
		explain.GroupSnapshot, groups.WithResource("volumegroupsnapshots"), true,
		func() client.ObjectList { return &groupv1.VolumeGroupSnapshotList{} },
		intoGroups(explain.GroupSnapshot, func(c *explain.Cluster) *[]*groupv1.VolumeGroupSnapshot {
			return &c.GroupSnapshots
		}), olderGroups(explain.GroupSnapshot), usersOfGroups,
	},
	{
		explain.GroupContent, groups.WithResource("volumegroupsnapshotcontents"), false,
		func() client.ObjectList { return &groupv1.VolumeGroupSnapshotContentList{} },
		intoGroups(explain.GroupContent, func(c *explain.Cluster) *[]*groupv1.VolumeGroupSnapshotContent {
			return &c.GroupContents
		}), olderGroups(explain.GroupContent), usersOfGroups,
	},
	{
		explain.GroupClass, groups.WithResource("volumegroupsnapshotclasses"), false,
		func() client.ObjectList { return &groupv1.VolumeGroupSnapshotClassList{} },
		intoGroups(explain.GroupClass, func(c *explain.Cluster) *[]*groupv1.VolumeGroupSnapshotClass {
			return &c.GroupClasses
		}), olderGroups(explain.GroupClass), usersOfGroups,
	},
}

// Rule is a permission that explanations need.
type Rule struct {
	Group, Resource string
	Namespaced      bool
}

// Rules returns the permissions to read everything, all of the verb list.
func Rules() []Rule {
	var rules []Rule
	for _, k := range kinds {
		rules = append(rules, Rule{k.resource.Group, k.resource.Resource, k.namespaced})
	}
	return rules
}
