package mounting

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Names of files and folders below a kubelet's root directory (5.4). They are contracts: a kubelet
// can take over what the agent mounted, and the other way round.
const (
	DataFile      = "vol_data.json"
	plugin        = "kubernetes.io/csi"
	escapedPlugin = "kubernetes.io~csi"
	targetName    = "mount"
	stageName     = "globalmount"
	devicesName   = "volumeDevices"
)

// Layout is where the volumes of a node stand below a kubelet's root directory (5.4).
type Layout struct{ Root string }

// Plugins is the folder of what is staged, by driver.
func (l Layout) Plugins() string { return path.Join(l.Root, "plugins", plugin) }

// BlockDevices is the folder of what is staged and published of raw block volumes.
func (l Layout) BlockDevices() string { return path.Join(l.Plugins(), devicesName) }

// Registrations is the folder in which drivers place their registration sockets (5.12).
func (l Layout) Registrations() string { return path.Join(l.Root, "plugins_registry") }

// Pods is the folder of all pods.
func (l Layout) Pods() string { return path.Join(l.Root, "pods") }

// Pod is the folder of one pod.
func (l Layout) Pod(uid types.UID) string { return path.Join(l.Pods(), string(uid)) }

// PodVolumes is the folder of a pod's CSI volumes.
func (l Layout) PodVolumes(uid types.UID) string {
	return path.Join(l.Pod(uid), "volumes", escapedPlugin)
}

// PodDevices is the folder of the links to a pod's raw block volumes.
func (l Layout) PodDevices(uid types.UID) string {
	return path.Join(l.Pod(uid), devicesName, escapedPlugin)
}

// VolumeDir holds the target and the metadata of one volume of a pod.
func (l Layout) VolumeDir(uid types.UID, spec string) string {
	return path.Join(l.PodVolumes(uid), escape(spec))
}

// Target is the path that NodePublishVolume gets: a folder of a filesystem, a file of a raw block
// volume.
func (l Layout) Target(id ID) string {
	if id.Mode == Block {
		return path.Join(l.BlockDevices(), "publish", escape(id.Spec), string(id.Pod))
	}
	return path.Join(l.VolumeDir(id.Pod, id.Spec), targetName)
}

// Stage is the staging path of a device.
func (l Layout) Stage(key Key, d DeviceID) string {
	if d.Mode == Block {
		return path.Join(l.BlockDevices(), "staging", escape(d.Spec))
	}
	return path.Join(l.StageDir(key), stageName)
}

// StageDir holds the staging path and the metadata of a filesystem volume. The handle is hashed, so
// it never becomes part of a path.
func (l Layout) StageDir(key Key) string {
	sum := sha256.Sum256([]byte(key.Handle))
	return path.Join(l.Plugins(), key.Driver, hex.EncodeToString(sum[:]))
}

// BlockDir holds the global map and the metadata of a raw block volume.
func (l Layout) BlockDir(spec string) string { return path.Join(l.BlockDevices(), escape(spec)) }

// BlockData is the folder of a raw block volume's metadata.
func (l Layout) BlockData(spec string) string { return path.Join(l.BlockDir(spec), "data") }

// BlockMaps is the global map: the folder of the files of BlockMap.
func (l Layout) BlockMaps(spec string) string { return path.Join(l.BlockDir(spec), "dev") }

// BlockMap is the file on which a published device is bind-mounted, for the lock by a loop device.
func (l Layout) BlockMap(id ID) string {
	return path.Join(l.BlockMaps(id.Spec), string(id.Pod))
}

// BlockPublish is the folder of a raw block volume's publications.
func (l Layout) BlockPublish(spec string) string {
	return path.Join(l.BlockDevices(), "publish", escape(spec))
}

// BlockLink is the link to a published device in the pod's folder.
func (l Layout) BlockLink(id ID) string { return path.Join(l.PodDevices(id.Pod), escape(id.Spec)) }

// escape makes a file name of a name of the API, as a kubelet does.
func escape(name string) string { return strings.ReplaceAll(name, "/", "~") }

// Unescape is the inverse of what a path has of a spec name.
func Unescape(file string) string { return strings.ReplaceAll(file, "~", "/") }
