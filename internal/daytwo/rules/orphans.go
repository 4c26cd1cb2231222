package daytwo

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	protection "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/internal/shell"
)

// SchemaOrphans names the form of `orphans -o json`.
const SchemaOrphans = "purser.orphans/v1"

// The kinds that a comparison depends on, as words of a sentence.
const (
	KindVolumes     = "PersistentVolumes"
	KindClaims      = "PersistentVolumeClaims"
	KindAttachments = "VolumeAttachments"
	KindNodes       = "Nodes"
	KindPods        = "Pods"
	KindSnapshots   = "VolumeSnapshots"
	KindContents    = "VolumeSnapshotContents"
	KindGroups      = "VolumeGroupSnapshots"
	KindGroupConts  = "VolumeGroupSnapshotContents"
)

// DriverVolume is a volume or a snapshot that a driver lists.
type DriverVolume struct {
	Handle string
	Source string // of a snapshot: the volume
	Bytes  int64
}

// DriverList is what one driver lists.
type DriverList struct {
	Driver    string
	Volumes   []DriverVolume
	Snapshots []DriverVolume
	// Unresolved are the requests in the journals of the driver's provisioners, which may have
	// created a volume whose handle is not known.
	Unresolved int
	Unread     []string // what it does not list, and why
}

// Mount is a path below a kubelet's folder on this machine.
type Mount struct {
	Path           string
	Pod            types.UID // whose volume is published there; empty for a staging path
	Driver, Digest string    // of a staging path: the driver, and the hash of the handle
}

// OrphanInput is all that the comparison is made from. Objects were read before the objects that
// would refer to them, so that one that was created meanwhile is not missing.
type OrphanInput struct {
	Now         time.Time
	Drivers     []DriverList
	Volumes     []corev1.PersistentVolume
	Attachments []storagev1.VolumeAttachment
	Contents    []snapshotv1.VolumeSnapshotContent
	GroupConts  []groupv1.VolumeGroupSnapshotContent
	Snapshots   []snapshotv1.VolumeSnapshot
	Groups      []groupv1.VolumeGroupSnapshot
	Claims      []corev1.PersistentVolumeClaim
	Pods        []corev1.Pod
	Nodes       []corev1.Node
	Mounts      []Mount
	Machine     string            // that the mounts were read on; empty if they were not
	Missing     map[string]string // kinds that could not be read, and why
	// Grace is the age below which an object may just be about to be referred to, or to be deleted.
	Grace time.Duration
}

// Orphan is something that nothing refers to.
type Orphan struct {
	Kind      string     `json:"kind"`
	Namespace string     `json:"namespace,omitempty"`
	Name      string     `json:"name"`
	Driver    string     `json:"driver,omitempty"`
	Handle    string     `json:"handle,omitempty"`
	Bytes     int64      `json:"bytes,omitempty"`
	Since     *time.Time `json:"since,omitempty"`
	Why       string     `json:"why"`
	// Proof says what was looked for, where, and not found.
	Proof []string `json:"proof"`
	// Doubt says what may refer to it all the same.
	Doubt   string     `json:"doubt,omitempty"`
	Command shell.Line `json:"command,omitempty"` // that an administrator may run; never run by itself
	Risk    string     `json:"risk,omitempty"`
}

// OrphanReport is the answer of orphans.
type OrphanReport struct {
	Schema  string    `json:"schema"`
	Time    time.Time `json:"time"`
	Orphans []Orphan  `json:"orphans"`
	// Compared says how many objects of each kind were compared.
	Compared map[string]int `json:"compared"`
	Unread   []string       `json:"unread,omitempty"`
	// Unasked is what is compared only if the command line asks for it.
	Unasked []string `json:"unasked,omitempty"`
}

// FindOrphans compares each kind with those that would refer to it. A comparison for which a kind
// could not be read is left out, and named.
func FindOrphans(in OrphanInput) OrphanReport {
	r := OrphanReport{Schema: SchemaOrphans, Time: in.Now.UTC(), Orphans: []Orphan{}, Compared: in.counts()}
	x := newOrphanIndex(in)
	for _, c := range []struct {
		needs []string
		what  string
		find  func() []Orphan
	}{
		{[]string{KindVolumes}, "volumes of drivers", x.driverVolumes},
		{[]string{KindContents, KindGroupConts}, "snapshots of drivers", x.driverSnapshots},
		{[]string{KindVolumes, KindClaims}, "PersistentVolumes without a claim", x.volumes},
		{[]string{KindAttachments, KindVolumes, KindNodes, KindPods}, "attachments", x.attachments},
		{[]string{KindContents, KindSnapshots}, "contents without a snapshot", x.contents},
		{[]string{KindGroupConts, KindGroups}, "contents without a group snapshot", x.groupContents},
		{[]string{KindNodes, KindVolumes}, "volumes in the status of nodes", x.nodeVolumes},
		{[]string{KindPods, KindVolumes}, "mounts of this machine", x.mounts},
	} {
		lacks := slices.DeleteFunc(slices.Clone(c.needs), func(kind string) bool { return in.Missing[kind] == "" })
		if len(lacks) == 0 {
			r.Orphans = append(r.Orphans, c.find()...)
			continue
		}
		r.Unread = append(r.Unread, fmt.Sprintf("%s: %s could not be read: %s", c.what, lacks[0], in.Missing[lacks[0]]))
	}
	for _, d := range in.Drivers {
		r.Unread = append(r.Unread, d.Unread...)
	}
	if len(in.Drivers) == 0 {
		r.Unasked = append(r.Unasked, "what a driver lists, with --csi-address where its socket is")
	}
	if in.Machine == "" {
		r.Unasked = append(r.Unasked, "the mounts of a node, with --kubelet-dir on the node")
	}
	return r
}

func (in OrphanInput) counts() map[string]int {
	counts := map[string]int{}
	for kind, count := range map[string]int{
		KindVolumes: len(in.Volumes), KindClaims: len(in.Claims), KindAttachments: len(in.Attachments),
		KindNodes: len(in.Nodes), KindPods: len(in.Pods), KindSnapshots: len(in.Snapshots),
		KindContents: len(in.Contents), KindGroups: len(in.Groups), KindGroupConts: len(in.GroupConts),
	} {
		if in.Missing[kind] == "" {
			counts[kind] = count
		}
	}
	for _, d := range in.Drivers {
		counts["volumes of "+d.Driver] = len(d.Volumes)
		counts["snapshots of "+d.Driver] = len(d.Snapshots)
	}
	if in.Machine != "" {
		counts["mounts of "+in.Machine] = len(in.Mounts)
	}
	return counts
}

// handleKey is a handle of a driver.
type handleKey struct{ driver, handle string }

// orphanIndex finds the objects that refer to others.
type orphanIndex struct {
	OrphanInput
	handles   map[handleKey]*corev1.PersistentVolume
	byName    map[string]*corev1.PersistentVolume
	claims    map[types.NamespacedName]*corev1.PersistentVolumeClaim
	snapshots map[types.NamespacedName]types.UID
	groups    map[types.NamespacedName]types.UID
	nodes     map[string]*corev1.Node
	pods      map[types.UID]bool
	wanted    map[string]bool // names of volumes that claims have in spec.volumeName
	uses      map[use]bool    // of claims on nodes
	taken     map[handleKey]bool
}

type use struct {
	node  string
	claim types.NamespacedName
}

func newOrphanIndex(in OrphanInput) *orphanIndex {
	x := &orphanIndex{
		OrphanInput: in, handles: map[handleKey]*corev1.PersistentVolume{},
		byName:    map[string]*corev1.PersistentVolume{},
		claims:    map[types.NamespacedName]*corev1.PersistentVolumeClaim{},
		snapshots: map[types.NamespacedName]types.UID{}, groups: map[types.NamespacedName]types.UID{},
		nodes: map[string]*corev1.Node{}, pods: map[types.UID]bool{}, uses: map[use]bool{}, taken: map[handleKey]bool{},
		wanted: map[string]bool{},
	}
	for i := range in.Volumes {
		pv := &in.Volumes[i]
		x.byName[pv.Name] = pv
		if source := csiOf(pv); source != nil {
			x.handles[handleKey{source.Driver, source.VolumeHandle}] = pv
		}
	}
	for i := range in.Claims {
		x.claims[keyOf(&in.Claims[i].ObjectMeta)] = &in.Claims[i]
		x.wanted[in.Claims[i].Spec.VolumeName] = true
	}
	for i := range in.Snapshots {
		x.snapshots[keyOf(&in.Snapshots[i].ObjectMeta)] = in.Snapshots[i].UID
	}
	for i := range in.Groups {
		x.groups[keyOf(&in.Groups[i].ObjectMeta)] = in.Groups[i].UID
	}
	for i := range in.Nodes {
		x.nodes[in.Nodes[i].Name] = &in.Nodes[i]
	}
	for i := range in.Pods {
		pod := &in.Pods[i]
		x.pods[pod.UID] = true
		for _, name := range protection.ClaimNames(pod) {
			x.uses[use{pod.Spec.NodeName, types.NamespacedName{Namespace: pod.Namespace, Name: name}}] = true
		}
	}
	x.takeSnapshots()
	return x
}

// csiOf returns the CSI source of a volume, also of one of an in-tree plugin; nil for none.
func csiOf(pv *corev1.PersistentVolume) *corev1.CSIPersistentVolumeSource {
	if objects.IsInTree(pv) {
		if migrated, err := objects.ToCSI(pv); err == nil {
			return migrated.Spec.CSI
		}
	}
	return pv.Spec.CSI
}

// driverVolumes finds the volumes of drivers that no PersistentVolume names.
func (x *orphanIndex) driverVolumes() (found []Orphan) {
	for _, list := range x.Drivers {
		for _, v := range list.Volumes {
			if v.Handle == "" || x.handles[handleKey{list.Driver, v.Handle}] != nil {
				continue
			}
			o := Orphan{
				Kind: "volume of the driver", Name: v.Handle, Driver: list.Driver, Handle: v.Handle, Bytes: v.Bytes,
				Why: "the driver lists a volume that no PersistentVolume names",
				Proof: []string{fmt.Sprintf(
					"none of the %d PersistentVolumes has spec.csi.driver %s and spec.csi.volumeHandle %s",
					len(x.Volumes),
					list.Driver, v.Handle,
				)},
				Doubt: "other clusters, and other users of the same backend, may have it; pods' inline volumes have " +
					"no PersistentVolume",
				Command: shell.Command("purser orphans --csi-address SOCKET --pv-of %s", v.Handle),
				Risk: "none: it prints a PersistentVolume with the policy Retain, by which the volume can be " +
					"looked into",
			}
			if list.Unresolved > 0 {
				o.Doubt = fmt.Sprintf("%s in the journal of the provisioner may have created it, and will resolve it; ",
					plural(list.Unresolved, "unresolved request")) + o.Doubt
			}
			found = append(found, o)
		}
	}
	return found
}

// volumes finds the PersistentVolumes whose claim is gone, and those that no claim has taken.
func (x *orphanIndex) volumes() (found []Orphan) {
	for i := range x.Volumes {
		pv := &x.Volumes[i]
		if pv.DeletionTimestamp != nil || x.since(pv.Status.LastPhaseTransitionTime, pv.CreationTimestamp) < x.Grace {
			continue
		}
		if why, proof := x.unclaimed(pv); why != "" {
			found = append(found, x.volume(pv, why, proof))
		}
	}
	return found
}

// unclaimed says why a volume has no claim; empty for one that has.
func (x *orphanIndex) unclaimed(pv *corev1.PersistentVolume) (why, proof string) {
	ref := pv.Spec.ClaimRef
	switch {
	case ref == nil && x.wanted[pv.Name]: // a claim waits for it
		return "", ""
	case ref == nil:
		return "no claim has taken the volume", fmt.Sprintf("spec.claimRef is empty, and none of the %d "+
			"PersistentVolumeClaims has spec.volumeName %s", len(x.Claims), pv.Name)
	}
	claim := x.claims[types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}]
	switch {
	case claim == nil && ref.UID == "":
		return "the claim that the volume is reserved for does not exist", fmt.Sprintf(
			"PersistentVolumeClaim %s/%s of spec.claimRef: not found", ref.Namespace, ref.Name)
	case claim == nil:
		return "the claim of the volume is gone", fmt.Sprintf(
			"PersistentVolumeClaim %s/%s with uid %s of spec.claimRef: not found", ref.Namespace, ref.Name, ref.UID)
	case ref.UID != "" && claim.UID != ref.UID:
		return "the claim of the volume is gone, and another one has its name", fmt.Sprintf(
			"PersistentVolumeClaim %s/%s: its uid is %s, and spec.claimRef.uid is %s", ref.Namespace, ref.Name,
			claim.UID,
			ref.UID)
	}
	return "", ""
}

func (x *orphanIndex) volume(pv *corev1.PersistentVolume, why, proof string) Orphan {
	o := Orphan{
		Kind: "PersistentVolume", Name: pv.Name, Why: why, Bytes: bytesOf(pv.Spec.Capacity[corev1.ResourceStorage]),
		Proof: []string{fmt.Sprintf("it is %s, reclaim policy %s", cmp.Or(pv.Status.Phase, "Pending"),
			cmp.Or(pv.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)), proof},
		Command: shell.Command("kubectl delete pv %s", pv.Name),
		Risk:    "the object is gone, and the volume and its data stay in the backend without one",
	}
	if t := pv.Status.LastPhaseTransitionTime; t != nil {
		o.Since = new(t.UTC())
	}
	if source := csiOf(pv); source != nil {
		o.Driver, o.Handle = source.Driver, source.VolumeHandle
	}
	if pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		o.Command = shell.Command("purser explain pv/%s", pv.Name)
		o.Risk = "none: it says why the volume is not deleted, which its policy Delete asks for"
	} else if pv.Spec.ClaimRef != nil {
		o.Doubt = "the policy Retain keeps the data for an administrator"
	}
	return o
}

// since returns how long an object has been as it is.
func (x *orphanIndex) since(changed *metav1.Time, created metav1.Time) time.Duration {
	if changed != nil {
		return x.Now.Sub(changed.Time)
	}
	return x.Now.Sub(created.Time)
}

func keyOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// nodeVolumes finds the volumes that a node says it uses, and that no PersistentVolume names.
func (x *orphanIndex) nodeVolumes() (found []Orphan) {
	for i := range x.Nodes {
		node := &x.Nodes[i]
		for _, unique := range node.Status.VolumesInUse {
			driver, handle, ok := names.ParseUniqueVolumeName(string(unique))
			if !ok || x.handles[handleKey{driver, handle}] != nil {
				continue
			}
			found = append(found, Orphan{
				Kind: "volume in use on a node", Name: node.Name, Driver: driver, Handle: handle,
				Why: "the kubelet says that it uses a volume that no PersistentVolume names",
				Proof: []string{
					fmt.Sprintf("Node %s: status.volumesInUse has %s", node.Name, unique),
					fmt.Sprintf(
						"none of the %d PersistentVolumes has the handle %s of driver %s", len(x.Volumes), handle,
						driver,
					),
				},
				Command: shell.Command("purser explain node/%s", node.Name),
				Risk:    "none: it only reads",
			})
		}
	}
	return found
}
