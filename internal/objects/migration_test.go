package objects

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
)

// pairs is every pair of M-1, with the handle of a volume, a parameter of an in-tree class and what
// the driver gets for it.
var pairs = []struct {
	driver, plugin, handle string
	attributes             map[string]string
	parameter, value       string
	becomes                map[string]string
}{
	{"ebs.csi.aws.com", "kubernetes.io/aws-ebs", "vol-0123456789abcdef0", nil, "fsType", "xfs", map[string]string{"csi.storage.k8s.io/fstype": "xfs"}},
	{
		"disk.csi.azure.com", "kubernetes.io/azure-disk", "/subscriptions/1/resourceGroups/2/providers/Microsoft.Compute/disks/pvc-1", nil,
		"skuname", "Premium_LRS",
		map[string]string{"skuname": "Premium_LRS"},
	},
	{
		"file.csi.azure.com", "kubernetes.io/azure-file", "rg#account#share#pvc-1#uuid#ns",
		map[string]string{"shareName": "share", "secretName": "s", "secretNamespace": "ns"},
		"skuName", "x",
		map[string]string{"skuName": "x"},
	},
	{"pd.csi.storage.gke.io", "kubernetes.io/gce-pd", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/pvc-1", nil, "fstype", "ext4", map[string]string{"csi.storage.k8s.io/fstype": "ext4"}},
	{"cinder.csi.openstack.org", "kubernetes.io/cinder", "0a1b2c3d", nil, "fstype", "ext4", map[string]string{"csi.storage.k8s.io/fstype": "ext4"}},
	{
		"csi.vsphere.vmware.com", "kubernetes.io/vsphere-volume", "[fast] pvc-1.vmdk",
		map[string]string{"initialvolumefilepath": "[fast] pvc-1.vmdk"},
		"datastore", "fast",
		map[string]string{"datastore-migrationparam": "fast", "csimigration": "true"},
	},
	{"pxd.portworx.com", "kubernetes.io/portworx-volume", "0a1b2c3d", nil, "repl", "2", map[string]string{"repl": "2"}},
}

func volume(driver, handle string, attributes map[string]string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-1", Finalizers: []string{names.FinalizerVolume}, Annotations: map[string]string{names.AnnProvisionedBy: driver},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:    &corev1.ObjectReference{Namespace: "ns", Name: "data", UID: "u"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: driver, VolumeHandle: handle, FSType: "ext4", VolumeAttributes: attributes,
			}},
		},
	}
}

// M-1, M-2, M-4, M-5, M-6: the class and the volume of every pair are translated, and back.
func TestPairs(t *testing.T) {
	for _, tc := range pairs {
		t.Run(tc.driver, func(t *testing.T) {
			if InTree(tc.driver) != tc.plugin || Driver(tc.plugin) != tc.driver {
				t.Errorf("M-1: %q and %q", InTree(tc.driver), Driver(tc.plugin))
			}
			class := &storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: "old"}, Provisioner: tc.plugin, Parameters: map[string]string{tc.parameter: tc.value},
			}
			translated, err := Class(class)
			if err != nil {
				t.Fatal(err)
			}
			if translated.Provisioner != tc.driver || class.Provisioner != tc.plugin || class.Parameters[tc.parameter] != tc.value {
				t.Errorf("M-4, R-33: %q, and the class is %v", translated.Provisioner, class)
			}
			if diff := cmp.Diff(tc.becomes, translated.Parameters); diff != "" {
				t.Errorf("M-4: parameters:\n%s", diff)
			}
			inTree, err := ToInTree(volume(tc.driver, tc.handle, tc.attributes))
			if err != nil {
				t.Fatal(err)
			}
			if inTree.Spec.CSI != nil || inTree.Annotations[names.AnnProvisionedBy] != tc.plugin || len(inTree.Finalizers) != 1 {
				t.Errorf("M-5: %+v", inTree)
			}
			if owner, known := Owner(inTree.Annotations); owner != tc.driver || !known {
				t.Errorf("D-2: owner %q", owner)
			}
			back, err := ToCSI(inTree)
			if err != nil {
				t.Fatal(err)
			}
			if back.Spec.CSI == nil || back.Spec.CSI.Driver != tc.driver || back.Annotations[names.AnnProvisionedBy] != tc.plugin {
				t.Fatalf("M-6: %+v", back)
			}
			if tc.plugin != "kubernetes.io/azure-file" && back.Spec.CSI.VolumeHandle != tc.handle {
				t.Errorf("M-6: handle %q, want %q", back.Spec.CSI.VolumeHandle, tc.handle)
			}
		})
	}
}

// D-2: the driver that owns a volume.
func TestOwner(t *testing.T) {
	for _, tc := range []struct {
		name        string
		annotations map[string]string
		want        string
		known       bool
	}{
		{"by hand", nil, "", false},
		{"by a driver", map[string]string{names.AnnProvisionedBy: "csi.example"}, "csi.example", true},
		{"by a plugin that stays", map[string]string{names.AnnProvisionedBy: "kubernetes.io/host-path"}, "kubernetes.io/host-path", true},
		{"by a plugin that was migrated", map[string]string{names.AnnProvisionedBy: "kubernetes.io/aws-ebs"}, "ebs.csi.aws.com", true},
		{"migrated-to wins", map[string]string{names.AnnProvisionedBy: "kubernetes.io/x", names.AnnMigratedTo: "csi.x"}, "csi.x", true},
		{"by hand, migrated", map[string]string{names.AnnMigratedTo: "csi.x"}, "csi.x", true},
	} {
		if got, known := Owner(tc.annotations); got != tc.want || known != tc.known {
			t.Errorf("%s: %q, %t", tc.name, got, known)
		}
	}
}

// ToCSI returns a volume that is not in-tree as the same object.
func TestToCSILeavesOthers(t *testing.T) {
	path := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
	}}
	for _, pv := range []*corev1.PersistentVolume{nil, path, volume("csi.example", "h", nil)} {
		if got, err := ToCSI(pv); got != pv || err != nil {
			t.Errorf("%v: %v, %v", pv, got, err)
		}
	}
	if InTree("csi.example") != "" || Driver("kubernetes.io/host-path") != "" || Driver("") != "" {
		t.Error("a driver without a plugin has one")
	}
	if _, err := ToInTree(volume("csi.example", "h", nil)); err == nil {
		t.Error("a volume of another driver is translated")
	}
	if _, err := Class(&storagev1.StorageClass{Provisioner: "kubernetes.io/host-path"}); err == nil {
		t.Error("a class of another plugin is translated")
	}
}

// 4.9, AT-L3: an inline volume of a pod, and its handle as the driver lists it.
func TestInline(t *testing.T) {
	disk := &corev1.Volume{Name: "d", VolumeSource: corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "x"}}}
	claim := &corev1.Volume{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}
	empty := &corev1.Volume{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	if !IsInline(disk) || IsInline(claim) || IsInline(empty) {
		t.Error("exactly the disk is of an in-tree plugin")
	}
	pv, err := Inline(disk, "ns")
	if err != nil || pv.Spec.CSI.Driver != "pd.csi.storage.gke.io" {
		t.Fatalf("%v, %v", pv, err)
	}
	if _, err := Inline(empty, "ns"); err == nil {
		t.Error("another volume is translated")
	}
	for _, tc := range [][4]string{
		{pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle, "projects/p/zones/z/instances/n", "projects/p/zones/z/disks/x"},
		{pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle, "n", pv.Spec.CSI.VolumeHandle},
		{"csi.example", "h", "n", "h"},
	} {
		if got := Handle(tc[0], tc[1], tc[2]); got != tc[3] {
			t.Errorf("AT-L3: %q, want %q", got, tc[3])
		}
	}
}
