package explain

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// controllers are workloads of drivers as their manifests name them.
var controllers = []struct{ driver, namespace, name, image string }{
	{"ebs.csi.aws.com", "kube-system", "ebs-csi-controller", "public.ecr.aws/ebs-csi-driver/aws-ebs-csi-driver:v1"},
	{"efs.csi.aws.com", "kube-system", "efs-csi-controller", "amazon/aws-efs-csi-driver:v2"},
	{"rook-ceph.rbd.csi.ceph.com", "rook-ceph", "csi-rbdplugin-provisioner", "quay.io/cephcsi/cephcsi:v3"},
	{"rook-ceph.cephfs.csi.ceph.com", "rook-ceph", "csi-cephfsplugin-provisioner", "quay.io/cephcsi/cephcsi:v3"},
	{"disk.csi.azure.com", "kube-system", "csi-azuredisk-controller", "mcr.microsoft.com/azuredisk-csi:v1"},
	{"file.csi.azure.com", "kube-system", "csi-azurefile-controller", "mcr.microsoft.com/azurefile-csi:v1"},
	{"csi.vsphere.vmware.com", "vmware-system-csi", "vsphere-csi-controller", "gcr.io/cloud-provider-vsphere/driver:v3"},
	{"nfs.csi.k8s.io", "kube-system", "csi-nfs-controller", "registry.k8s.io/sig-storage/nfsplugin:v4"},
	{"smb.csi.k8s.io", "kube-system", "csi-smb-controller", "registry.k8s.io/sig-storage/smbplugin:v1"},
	{"driver.longhorn.io", "longhorn-system", "csi-provisioner", "longhornio/csi-provisioner:v3"},
	{"cinder.csi.openstack.org", "kube-system", "openstack-cinder-csi-controllerplugin", "cinder-csi-plugin:v1"},
	{"pd.csi.storage.gke.io", "gce-pd-csi-driver", "csi-gce-pd-controller", "gcp-compute-persistent-disk-csi-driver:v1"},
	{"csi.hetzner.cloud", "kube-system", "hcloud-csi-controller", "hetznercloud/hcloud-csi-driver:v2"},
	{"dobs.csi.digitalocean.com", "kube-system", "csi-do-controller", "digitalocean/do-csi-plugin:v4"},
}

// Each driver's controller is found among those of all others, and a driver without one gets none.
func TestRunnerOfDrivers(t *testing.T) {
	c := &Cluster{}
	for _, of := range controllers {
		c.CSIDrivers = append(c.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: of.driver}})
		c.Deployments = append(c.Deployments, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: of.namespace, Name: of.name},
			Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: "csi-provisioner", Image: "registry.k8s.io/sig-storage/csi-provisioner:v5.0.1"}, {Name: "plugin", Image: of.image},
			}}}},
		})
	}
	c.Prepare()
	for _, of := range controllers {
		want := Ref{Deployment, of.namespace, of.name}
		if by := c.runnerOf(provisioner(of.driver)); by.workload == nil || by.workload.ref != want {
			t.Errorf("%s: %v, want %s", of.driver, by.workload, want)
		}
	}
	c.CSIDrivers = append(c.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "zfs.example.com"}})
	c.Prepare()
	if by := c.runnerOf(provisioner("zfs.example.com")); by.workload != nil {
		t.Errorf("a driver without a controller has %s", by.workload)
	}
	copied := c.Deployments[0].DeepCopy()
	copied.Name = "ebs-csi-controller2"
	c.Deployments = append(c.Deployments, copied)
	c.Prepare()
	if by := c.runnerOf(provisioner("ebs.csi.aws.com")); by.workload != nil {
		t.Errorf("of two that fit as well, %s is taken", by.workload)
	}
}

func TestNearest(t *testing.T) {
	c := &Cluster{}
	for _, of := range controllers {
		c.CSIDrivers = append(c.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: of.driver}})
	}
	for name, want := range map[string]string{
		"ebs.csi.amazonaws.com": "", "ebs.csi.aws.co": "ebs.csi.aws.com", "rbd.csi.ceph.com": "",
		"csi.vsphere.vmware.co": "csi.vsphere.vmware.com", "nsf.csi.k8s.io": "nfs.csi.k8s.io", "zfs.example.org": "",
	} {
		if got := c.nearest(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
