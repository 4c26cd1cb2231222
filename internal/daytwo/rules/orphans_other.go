package daytwo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/shell"
)

// takeSnapshots notes the handles of snapshots that contents name.
func (x *orphanIndex) takeSnapshots() {
	for i := range x.Contents {
		c := &x.Contents[i]
		x.taken[handleKey{c.Spec.Driver, contentHandle(c)}] = true
	}
	for i := range x.GroupConts {
		c := &x.GroupConts[i]
		if given := c.Spec.Source.GroupSnapshotHandles; given != nil {
			for _, handle := range given.VolumeSnapshotHandles {
				x.taken[handleKey{c.Spec.Driver, handle}] = true
			}
		}
		if c.Status == nil {
			continue
		}
		for _, info := range c.Status.VolumeSnapshotInfoList {
			x.taken[handleKey{c.Spec.Driver, info.SnapshotHandle}] = true
		}
	}
}

// contentHandle returns the handle of a content's snapshot; empty as long as the driver has not
// given one.
func contentHandle(c *snapshotv1.VolumeSnapshotContent) string {
	if c.Status != nil && c.Status.SnapshotHandle != nil {
		return *c.Status.SnapshotHandle
	}
	if c.Spec.Source.SnapshotHandle != nil {
		return *c.Spec.Source.SnapshotHandle
	}
	return ""
}

// driverSnapshots finds the snapshots of drivers that no content names.
func (x *orphanIndex) driverSnapshots() (found []Orphan) {
	for _, list := range x.Drivers {
		pending := 0
		for i := range x.Contents {
			if c := &x.Contents[i]; c.Spec.Driver == list.Driver && contentHandle(c) == "" {
				pending++
			}
		}
		for _, s := range list.Snapshots {
			if s.Handle == "" || x.taken[handleKey{list.Driver, s.Handle}] {
				continue
			}
			o := Orphan{
				Kind: "snapshot of the driver", Name: s.Handle, Driver: list.Driver, Handle: s.Handle, Bytes: s.Bytes,
				Why: "the driver lists a snapshot that no VolumeSnapshotContent names",
				Proof: []string{fmt.Sprintf(
					"none of the %d VolumeSnapshotContents and %d VolumeGroupSnapshotContents has the handle %s of "+
						"driver %s; it is of volume %s", len(x.Contents), len(x.GroupConts), s.Handle, list.Driver,
					orDash(s.Source),
				)},
				Doubt: "other clusters, and other users of the same backend, may have it",
			}
			if pending > 0 {
				o.Doubt = plural(pending, "content") + " of the driver without a handle yet may be its; " + o.Doubt
			}
			found = append(found, o)
		}
	}
	return found
}

// attachments finds the VolumeAttachments without a node or a volume, and those that no pod needs.
func (x *orphanIndex) attachments() (found []Orphan) {
	for i := range x.Attachments {
		va := &x.Attachments[i]
		if va.DeletionTimestamp != nil || x.Now.Sub(va.CreationTimestamp.Time) < x.Grace ||
			va.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		name := *va.Spec.Source.PersistentVolumeName
		o := Orphan{
			Kind: "VolumeAttachment", Name: va.Name, Driver: va.Spec.Attacher, Since: new(va.CreationTimestamp.UTC()),
			Command: shell.Command("kubectl delete volumeattachment %s", va.Name),
			Risk:    "the driver detaches the volume; a node that still writes to it loses these writes",
		}
		node, pv := x.nodes[va.Spec.NodeName], x.byName[name]
		switch {
		case node == nil:
			o.Why = "the node of the attachment is gone"
			o.Proof = []string{fmt.Sprintf("Node %s of spec.nodeName: not found", va.Spec.NodeName)}
		case pv == nil:
			o.Why = "the volume of the attachment is gone"
			o.Proof = []string{fmt.Sprintf("PersistentVolume %s of spec.source.persistentVolumeName: not found", name)}
		default:
			o.Why, o.Proof = x.unneeded(va, node, pv)
		}
		if o.Why != "" {
			found = append(found, o)
		}
	}
	return found
}

// unneeded says why no pod needs an attachment; empty for one that a pod needs, that the kubelet
// uses, or that the attach-detach controller did not make.
func (x *orphanIndex) unneeded(
	va *storagev1.VolumeAttachment, node *corev1.Node, pv *corev1.PersistentVolume,
) (why string, proof []string) {
	source := csiOf(pv)
	if source == nil || pv.Spec.ClaimRef == nil || !names.IsAttachmentName(va.Name) {
		return "", nil
	}
	claim := types.NamespacedName{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name}
	unique := corev1.UniqueVolumeName(names.UniqueVolumeName(source.Driver, source.VolumeHandle))
	if x.uses[use{node.Name, claim}] || slices.Contains(node.Status.VolumesInUse, unique) {
		return "", nil
	}
	return "no pod on the node uses the volume", []string{
		fmt.Sprintf(
			"none of the %d Pods on node %s uses PersistentVolumeClaim %s", x.podsOn(node.Name), node.Name, claim,
		),
		fmt.Sprintf("Node %s: status.volumesInUse has no %s", node.Name, unique),
	}
}

func (x *orphanIndex) podsOn(node string) (count int) {
	for i := range x.Pods {
		if x.Pods[i].Spec.NodeName == node {
			count++
		}
	}
	return count
}

// contents finds the contents whose snapshot is gone.
func (x *orphanIndex) contents() (found []Orphan) {
	for i := range x.Contents {
		c := &x.Contents[i]
		ref := c.Spec.VolumeSnapshotRef
		proof := missing("VolumeSnapshot", ref.Namespace, ref.Name, ref.UID, x.snapshots)
		if proof == "" || x.isYoung(&c.ObjectMeta) {
			continue
		}
		o := Orphan{
			Kind: "VolumeSnapshotContent", Name: c.Name, Driver: c.Spec.Driver, Handle: contentHandle(c),
			Since: new(c.CreationTimestamp.UTC()), Why: "the snapshot of the content is gone",
			Proof: []string{proof, "spec.deletionPolicy is " + string(c.Spec.DeletionPolicy)},
		}
		o.advise(shell.Command("kubectl delete volumesnapshotcontent %s", c.Name), string(c.Spec.DeletionPolicy))
		found = append(found, o)
	}
	return found
}

// groupContents finds the contents whose group snapshot is gone.
func (x *orphanIndex) groupContents() (found []Orphan) {
	for i := range x.GroupConts {
		c := &x.GroupConts[i]
		ref := c.Spec.VolumeGroupSnapshotRef
		proof := missing("VolumeGroupSnapshot", ref.Namespace, ref.Name, ref.UID, x.groups)
		if proof == "" || x.isYoung(&c.ObjectMeta) {
			continue
		}
		o := Orphan{
			Kind: "VolumeGroupSnapshotContent", Name: c.Name, Driver: c.Spec.Driver,
			Since: new(c.CreationTimestamp.UTC()),
			Why:   "the group snapshot of the content is gone",
			Proof: []string{proof, "spec.deletionPolicy is " + string(c.Spec.DeletionPolicy)},
		}
		o.advise(shell.Command("kubectl delete volumegroupsnapshotcontent %s", c.Name), string(c.Spec.DeletionPolicy))
		found = append(found, o)
	}
	return found
}

func (x *orphanIndex) isYoung(o *metav1.ObjectMeta) bool {
	return o.DeletionTimestamp != nil || x.Now.Sub(o.CreationTimestamp.Time) < x.Grace
}

// advise adds the command that deletes a content, and what happens to its snapshot.
func (o *Orphan) advise(command shell.Line, policy string) {
	o.Command = command
	o.Risk = "the object is gone, and the snapshot stays in the backend without one"
	if policy == string(snapshotv1.VolumeSnapshotContentDelete) {
		o.Risk = "the driver deletes the snapshot and its data"
	} else {
		o.Doubt = "the policy Retain keeps the data for an administrator"
	}
}

// missing says that the object of a reference is gone; empty if it is there.
func missing(kind, namespace, name string, uid types.UID, have map[types.NamespacedName]types.UID) string {
	found, is := have[types.NamespacedName{Namespace: namespace, Name: name}]
	switch {
	case !is:
		return fmt.Sprintf("%s %s/%s: not found", kind, namespace, name)
	case uid != "" && found != uid:
		return fmt.Sprintf("%s %s/%s: its uid is %s, and that of the reference %s", kind, namespace, name, found, uid)
	}
	return ""
}

// mounts finds the mounts of pods that do not exist, and those of volumes that no PersistentVolume
// names.
func (x *orphanIndex) mounts() (found []Orphan) {
	digests := map[handleKey]bool{}
	for key := range x.handles {
		sum := sha256.Sum256([]byte(key.handle))
		digests[handleKey{key.driver, hex.EncodeToString(sum[:])}] = true
	}
	for _, m := range x.Mounts {
		o := Orphan{
			Kind: "mount", Name: m.Path, Driver: m.Driver, Command: shell.Command("umount %s", m.Path),
			Risk: "a process that still has files open there loses these; the kubelet may be about to unmount it",
		}
		switch {
		case m.Pod != "" && !x.pods[m.Pod]:
			o.Why = "the volume is mounted for a pod that is gone"
			o.Proof = []string{fmt.Sprintf("none of the %d Pods has the uid %s", len(x.Pods), m.Pod)}
		case m.Pod == "" && !digests[handleKey{m.Driver, m.Digest}]:
			o.Why = "a volume is staged that no PersistentVolume names"
			o.Proof = []string{fmt.Sprintf("none of the %d PersistentVolumes of driver %s has a volumeHandle with "+
				"the SHA-256 %s",
				len(x.Volumes), m.Driver, m.Digest)}
		default:
			continue
		}
		o.Proof = append(o.Proof, "machine "+x.Machine+": the mount table has "+m.Path)
		found = append(found, o)
	}
	return found
}

// ParseMount reads a path of the mount table below a kubelet's folder; false for one that is no
// volume of a CSI driver.
func ParseMount(folder, path string) (Mount, bool) {
	rest, below := strings.CutPrefix(path, strings.TrimSuffix(folder, "/")+"/")
	parts := strings.Split(rest, "/")
	switch {
	case !below:
	case len(parts) == 6 && parts[0] == "pods" && parts[2] == "volumes" && parts[3] == "kubernetes.io~csi" &&
		parts[5] == "mount":
		return Mount{Path: path, Pod: types.UID(parts[1])}, true
	case len(parts) == 6 && parts[0] == "plugins" && parts[1] == "kubernetes.io" && parts[2] == "csi" &&
		parts[5] == "globalmount":
		return Mount{Path: path, Driver: parts[3], Digest: parts[4]}, true
	}
	return Mount{}, false
}
