package explain

import "strings"

// driverError is a text in errors of CSI drivers, and what it means where the gRPC code says too
// little.
type driverError struct {
	driver  string // part of the driver's name; empty for every driver
	text    string // part of the message, lower-cased, with single spaces
	actor   Actor
	thread  string // public thread in which the text occurs, as OWNER/REPOSITORY#NUMBER
	meaning string
	advice  string
	risk    string
}

// Advice that several rows share.
const (
	otherNode = "Let the pod run on another node, or use nodes that take more volumes. If the CSINode's " +
		"allocatable count is higher than that limit, correct it in the driver's settings"
	findHolder = "Find on the backend which machine has the volume, and stop what uses it there"
	raiseQuota = "Delete volumes that are not needed, or ask the provider for a higher limit"
	slowDown   = "It is repeated by itself, with growing pauses. If it does not end, find what else calls the API often"
	sameZone   = "Run the pod on a node in the volume's zone; for new volumes use a class with volumeBindingMode " +
		"WaitForFirstConsumer"
	stillWrites = "a machine that still writes to the volume when it is detached loses data"
)

// driverErrors are searched in this order: the row of one driver comes before that of every driver.
var driverErrors = []driverError{
	{
		"ebs.csi.aws.com", "attachmentlimitexceeded", Administrator, "kubernetes-sigs/aws-ebs-csi-driver#2500",
		"The instance has as many devices as its type allows; network interfaces count too", otherNode, "",
	},
	{
		"ebs.csi.aws.com", "is already attached to an instance", Administrator, "kubernetes/kubernetes#45049",
		"EBS has the volume attached to another instance", findHolder + "; then detach it in EC2", stillWrites,
	},
	{
		"ebs.csi.aws.com", "invalidvolume.zonemismatch", Administrator, "kubernetes-sigs/aws-ebs-csi-driver#52",
		"The volume is in another availability zone than the instance", sameZone, "",
	},
	{
		"ebs.csi.aws.com", "unauthorizedoperation", CloudOwner, "kubernetes-sigs/aws-ebs-csi-driver#1449",
		"The IAM role of the driver's controller does not allow this call of EC2",
		"Give the role the driver's policy, and the use of the KMS key if volumes are encrypted with one", "",
	},
	{
		"aws.com", "sts:assumerolewithwebidentity", CloudOwner, "kubernetes-sigs/aws-ebs-csi-driver#748",
		"The trust policy of the IAM role does not name this cluster's OIDC provider and the driver's service account",
		"Correct the trust policy, and the role in the annotation of the service account", "",
	},
	{
		"aws.com", "no valid providers in chain", Administrator, "kubernetes-sigs/aws-ebs-csi-driver#714",
		"The driver has no credentials for AWS",
		"Give the service account of its controller an IAM role, or let the pod reach the instance metadata", "",
	},
	{
		"ebs.csi.aws.com", "volumelimitexceeded", CloudOwner, "kubernetes-sigs/aws-ebs-csi-driver#2512",
		"The account's quota for this type of EBS volumes is used up", raiseQuota, "",
	},
	{
		"aws.com", "requestlimitexceeded", CloudOwner, "kubernetes-sigs/aws-ebs-csi-driver#1148",
		"AWS limits the rate of the account's calls", slowDown, "",
	},
	{
		"ebs.csi.aws.com", "maximum modification rate per volume", User, "openshift/runbooks#247",
		"EBS allows few changes of one volume: one in six hours, and since 2026 four in a day",
		"Wait; it is repeated by itself. Put further changes into one", "",
	},
	{
		"ebs.csi.aws.com", "for unixdevice. attachment point", Administrator, "kubermatic/kubeone#2859",
		"The device name that the driver chose is taken on the instance",
		"Update the driver: release 1.22.0 has the fix", "",
	},
	{
		"efs.csi.aws.com", "accesspointlimitexceeded", CloudOwner, "kubernetes-sigs/aws-efs-csi-driver#517",
		"The EFS file system has as many access points as it may have",
		"Remove access points that no PersistentVolume names, use another file system, or ask for a higher limit",
		"an access point that is still used is the only way to the volume",
	},
	{
		"efs.csi.aws.com", "access denied by server while mounting", CloudOwner,
		"kubernetes-sigs/aws-efs-csi-driver#280", "The policy of the EFS file system refuses the mount",
		"Allow elasticfilesystem:ClientMount and ClientWrite to the role of the driver's node pod, and set the mount " +
			"options tls and iam", "",
	},
	{
		"pd.csi.storage.gke.io", "is already being used by", Administrator, "kubernetes/kubernetes#48968",
		"The disk is attached to the instance that the message names",
		"If no pod on that instance uses it, detach it in Compute Engine", stillWrites,
	},
	{
		"pd.csi.storage.gke.io", "' exceeded. limit:", CloudOwner, "googlecodelabs/feedback#440",
		"The project's quota for disks in this region is used up", raiseQuota, "",
	},
	{
		"pd.csi.storage.gke.io", "required 'compute.", CloudOwner,
		"kubernetes-sigs/gcp-compute-persistent-disk-csi-driver#794",
		"The service account of the driver lacks the permission that the message names",
		"Give the account a role with this permission. On GKE it is the provider's service agent", "",
	},
	{
		"pd.csi.storage.gke.io", "due to backoff condition", Administrator, "kubernetes/kubernetes#110987",
		"The driver pauses for this node after an earlier failure", "The events before this one have the cause", "",
	},
	{
		"disk.csi.azure.com", "maximum number of data disks allowed to be attached", Administrator,
		"kubernetes-sigs/azuredisk-csi-driver#879", "The VM has as many data disks as its size allows", otherNode, "",
	},
	{
		"disk.csi.azure.com", "already attached to node(", Administrator,
		"kubernetes-sigs/cloud-provider-azure#622", "Azure has the disk attached to another VM",
		findHolder + "; then detach the disk in Azure", stillWrites,
	},
	{
		"disk.csi.azure.com", "cannot be attached to the vm because it is not in", Administrator,
		"kubernetes/kops#14453", "The disk is in another zone than the VM, or in none", sameZone, "",
	},
	{
		"csi.azure.com", "authorizationfailed", CloudOwner, "kubernetes-sigs/azuredisk-csi-driver#2609",
		"The driver's identity lacks the action that the message names on that scope",
		"Give the identity a role with this action on the resource group or the resource", "",
	},
	{
		"disk.csi.azure.com", "(instance not found)", Administrator, "kubernetes-sigs/azuredisk-csi-driver#249",
		"Azure has no VM of the node's name where the driver looks for it",
		"Compare resource group and vmType in the driver's cloud configuration with the VM; is the VM deleted?", "",
	},
	{
		"csi.azure.com", "toomanyrequests", CloudOwner, "kubernetes-sigs/azurefile-csi-driver#432",
		"Azure limits the rate of the subscription's calls", slowDown, "",
	},
	{
		"csi.azure.com", "client throttled", Administrator, "kubernetes-sigs/azurefile-csi-driver#323",
		"The driver limits its own calls to Azure, or pauses after Azure did", slowDown, "",
	},
	{
		"file.csi.azure.com", "totalsharesprovisionedcapacityexceeds", CloudOwner,
		"kubernetes-sigs/azurefile-csi-driver#1345", "The shares of the storage account have reached its capacity",
		"Use another storage account, or delete shares that are not needed", "the data of a deleted share is lost",
	},
	{
		"file.csi.azure.com", "mount error(13): permission denied", Administrator, "MicrosoftDocs/azure-docs#92970",
		"The storage account refuses the node",
		"Compare the key in the secret with the account's keys, and allow the node's subnet in its network rules", "",
	},
	{
		"csi.vsphere.vmware.com", "the resource 'volume' is in use", Administrator,
		"kubernetes-sigs/vsphere-csi-driver#1175", "vSphere has the disk attached to another VM",
		findHolder + "; then detach the disk in vCenter", stillWrites,
	},
	{
		"csi.vsphere.vmware.com", "nopermission", CloudOwner, "kubernetes-sigs/vsphere-csi-driver#429",
		"The driver's vCenter user lacks a privilege on an object of this call",
		"Give the user the driver's roles on the datastores, the VMs and their folders, also on ones that are new", "",
	},
	{
		"csi.vsphere.vmware.com", "no compatible datastore", Administrator,
		"kubernetes-sigs/vsphere-csi-driver#348",
		"No datastore satisfies the storage policy and is reached by all hosts of the zone",
		"Tag a shared datastore for the policy, or name another policy in the StorageClass", "",
	},
	{
		"cinder", "volumelimitexceeded", CloudOwner, "kubernetes/cloud-provider-openstack#1276",
		"The OpenStack project's quota for volumes is used up", raiseQuota, "",
	},
	{
		"cinder", "status must be available", Administrator, "kubernetes/cloud-provider-openstack#1485",
		"Cinder has the volume attached, or in another operation",
		findHolder + "; if it is attached to none, its state in Cinder has to be reset", stillWrites,
	},
	{
		"cinder", "not in the same availability_zone", Administrator, "rancher/rancher#32775",
		"Nova attaches volumes of its own zone only, and the volume is in another", sameZone, "",
	},
	{
		"rbd.csi.ceph.com", "is still being used", Administrator, "ceph/ceph-csi#4375",
		"Another client has the image open: it has a watcher in Ceph",
		"Find its address by `rbd status` of the image. If that node is down, add its client to Ceph's blocklist",
		stillWrites,
	},
	{
		"rbd.csi.ceph.com", "rbd: map failed: (1) operation not permitted", Administrator, "rook/rook#12991",
		"The Ceph user of the node side has no access to the pool of the image, or to its data pool",
		"Give the user of the node-stage secret the capability profile rbd on both pools", "",
	},
	{
		"rbd.csi.ceph.com", "rbd: map failed: (13) permission denied", Administrator, "ceph/ceph-csi#5150",
		"The Ceph user may not take the image's lock from a client that is gone",
		"Give the user of the node-stage secret the capability profile rbd on the monitors", "",
	},
	{
		"rbd.csi.ceph.com", "feature set mismatch", Administrator, "bmwx4/k8s-in-practice#8",
		"The kernel of the node does not know a feature of the image",
		"Use a newer kernel, or the class parameter imageFeatures: layering for new volumes", "",
	},
	{
		"rbd.csi.ceph.com", "image has watchers", Administrator, "rook/rook#2553",
		"A client has the image open, so Ceph does not delete it",
		"Find its address by `rbd status` of the image, and unmap the image there", "",
	},
	{
		"rbd.csi.ceph.com", "image has snapshots", Administrator, "ceph/ceph-csi#227",
		"The image has snapshots, so Ceph does not delete it", "Delete the snapshots first",
		"the data of the snapshots is lost",
	},
	{
		"cephfs.csi.ceph.com", "mount error 13 = permission denied", Administrator, "ceph/ceph-csi#4086",
		"The metadata server rejects the Ceph user",
		"Compare the user's capabilities with the file system and path of the volume, and the key in the secret", "",
	},
	{
		"driver.longhorn.io", "is not ready for workloads", Administrator, "longhorn/longhorn#9511",
		"Longhorn has not made the volume usable on the node: replicas, engine or share manager do not run",
		"The conditions of the Longhorn volume say which; " +
			"look at the replicas and the longhorn-manager of the node", "",
	},
	{
		"driver.longhorn.io", "already mounted or mount point busy", Administrator, "longhorn/longhorn#1819",
		"A program of the node holds the device, most often multipathd",
		"Add Longhorn's devices to the blacklist of multipath.conf, and restart multipathd on the node", "",
	},
	{
		"driver.longhorn.io", " not scheduled", Administrator, "longhorn/longhorn#1565",
		"Longhorn finds no disk for the volume's replicas",
		"Add room or nodes, or ask for fewer replicas: each needs a node of its own", "",
	},
	{
		"topolvm", "not enough space", Administrator, "topolvm/topolvm#655",
		"The volume group of the node has too little room left, without what spare-gb keeps back",
		"Extend the volume group of the node that the volume is on, or ask for less", "",
	},
	{
		"openebs", "no vg available to serve volume request", Administrator, "openebs/lvm-localpv#216",
		"No node has a volume group of the class's name with enough room",
		"Compare the parameter volgroup of the StorageClass with the volume groups of the nodes", "",
	},
	{
		"openebs", "cannot find suitable storage pool", Administrator, "openebs/mayastor#440",
		"Fewer disk pools are online and have room than the volume has replicas",
		"Add disk pools, or use a class with fewer replicas", "",
	},
	{
		"openebs", "notenoughresources", Administrator, "openebs/mayastor#1844",
		"Fewer disk pools or nodes are online and have room than the volume needs",
		"Add disk pools, or use a class with fewer replicas", "",
	},
	{
		"openebs", "not enough pools", Administrator, "openebs/openebs#3644",
		"Fewer cStor pools are healthy and have room than the volume has replicas",
		"Add pools, or use a class with fewer replicas", "",
	},
	{
		"openebs", "zfs: volume creation failed", Administrator, "openebs/zfs-localpv#617",
		"ZFS refused the volume on each node that was tried", "Read the log of openebs-zfs-node on a node that the " +
			"message names, and compare the parameter poolname with its pools", "",
	},
	{
		"democratic-csi", "non-retryable iscsi login failure", Administrator, "democratic-csi/democratic-csi#53",
		"The NAS does not serve this iSCSI target to the node",
		"Read the log of the iSCSI service on the NAS; reload its configuration if the target is missing in it", "",
	},
	{
		"democratic-csi", "dataset is busy", Administrator, "democratic-csi/democratic-csi#49",
		"The dataset is still exported or open, so ZFS does not delete it",
		"Remove the iSCSI extent or the share of the dataset on the NAS", "",
	},
	{
		"democratic-csi", "disk quota exceeded", Administrator, "democratic-csi/democratic-csi#441",
		"The dataset's quota is smaller than what is to be written to it",
		"Ask for a size not below that of the source, or turn off datasetEnableQuotas", "",
	},
	{
		"dobs.csi.digitalocean.com", "volume limit (", CloudOwner, "digitalocean/csi-digitalocean#128",
		"The account has as many volumes as it may have", raiseQuota, "",
	},
	{
		"dobs.csi.digitalocean.com", "capacity limit exceeded", CloudOwner, "digitalocean/csi-digitalocean#476",
		"The account's volumes and snapshots have reached its capacity", raiseQuota, "",
	},
	{
		"linodebs.csi.linode.com", "max number of volumes (", Administrator,
		"linode/linode-blockstorage-csi-driver#182",
		"The instance has as many volumes as its memory allows; its own disks count too", otherNode, "",
	},
	{
		"csi.hetzner.cloud", "maximum number of volumes already attached to the server", Administrator,
		"hetznercloud/csi-driver#240", "The server has as many volumes as Hetzner allows", otherNode, "",
	},
	{
		"portworx", "volume is attached on another node", Administrator, "libopenstorage/stork#726",
		"Portworx has the volume attached to another node",
		"Stop the pod that uses it there, or run this one on the same node (Stork does so)", "",
	},
	{
		"trident", "no available backends for storage class", Administrator, "helm/charts#11481",
		"No Trident backend is online that satisfies the StorageClass",
		"See whether the backends are online, and compare the parameters of the class with their pools", "",
	},
	{
		"trident", "volume state is still creating", Administrator, "NetApp/trident#707",
		"The backend has not finished the volume yet", "It is repeated by itself; see on the backend how far it is", "",
	},
	{
		"", "an operation with the given volume id", Administrator, "ceph/ceph-csi#1062",
		"An earlier call for this volume has not returned",
		"Find out what it hangs on: does the driver reach its backend, and is a pool full? " +
			"The driver's log has more", "",
	},
	{
		"", "access denied by server while mounting", Administrator,
		"kubernetes-sigs/nfs-subdir-external-provisioner#188",
		"The NFS server does not export this path to this node, or not with this version",
		"Add the node to the export, see whether the path exists, and set nfsvers in the mount options", "",
	},
	{
		"", "rpc.statd is not running", Administrator, "Nexenta/edgefs-csi#16",
		"NFS 3 needs rpc.statd on the node for locks",
		"Start rpc-statd on the node, or use the mount option nfsvers=4.1", "",
	},
	{
		"", "you might need a /sbin/mount.", Administrator, "MicrosoftDocs/azure-docs#75039",
		"The node has no mount helper for this filesystem",
		"Install it on the nodes (nfs-common or nfs-utils for NFS, cifs-utils for SMB)", "",
	},
	{
		"", "mount error(13): permission denied", Administrator, "kubernetes-csi/csi-driver-smb#250",
		"The SMB server refuses user, password or domain of the secret",
		"Correct username, password and domain in the secret, and the user's permission on the share", "",
	},
	{
		"", "mount error(2): no such file or directory", Administrator, "kubernetes-csi/csi-driver-smb#548",
		"The SMB server has no share or folder of this name",
		"Create it, or correct its name in the volume or class", "",
	},
}

// knownError returns the row that a message of a driver contains; nil if there is none. A driver
// that is not known has the rows of every driver.
func knownError(driver, message string) *driverError {
	message = strings.Join(strings.Fields(strings.ToLower(message)), " ")
	for i := range driverErrors {
		row := &driverErrors[i]
		if strings.Contains(driver, row.driver) && strings.Contains(message, row.text) {
			return row
		}
	}
	return nil
}

func (e *driverError) step() Step {
	return Step{Text: e.meaning + ". " + e.advice + " (see " + e.thread + " on GitHub)", Risk: e.risk}
}
