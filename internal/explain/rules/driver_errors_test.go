package explain

import (
	"regexp"
	"strings"
	"testing"
)

// reported are messages of the drivers as the threads of [driverErrors] have them, in the order of the rows.
var reported = []struct{ driver, message string }{
	{"ebs.csi.aws.com", `rpc error: code = ResourceExhausted desc = Attachment limit exceeded for volume "vol-0d8d2bab6fc5dd31b" on node "i-00f897f741bb9326a": attachment limit exceeded: operation error EC2: AttachVolume, https response error StatusCode: 400, RequestID: c56fd5ce, api error AttachmentLimitExceeded: You may attach up to 27 devices for this instance type.`},
	{"ebs.csi.aws.com", `Error attaching EBS volume "vol-00095ddceae1a96ed" to instance "i-245203b7": VolumeInUse: vol-00095ddceae1a96ed is already attached to an instance`},
	{"ebs.csi.aws.com", `rpc error: code = Internal desc = Could not attach volume "vol-06899fef1736f24b9" to node "i-0a7e7ab68218ef0e0": could not attach volume "vol-06899fef1736f24b9" to node "i-0a7e7ab68218ef0e0": InvalidVolume.ZoneMismatch: The volume 'vol-06899fef1736f24b9' is not in the same availability zone as instance 'i-0a7e7ab68218ef0e0'`},
	{"ebs.csi.aws.com", `failed to provision volume with StorageClass "default": rpc error: code = Internal desc = Could not create volume "pvc-3f337215": could not create volume in EC2: UnauthorizedOperation: You are not authorized to perform this operation. Encoded authorization failure message:`},
	{"ebs.csi.aws.com", "failed to provision volume with StorageClass \"csi-sc\": rpc error: code = Internal desc = WebIdentityErr: failed to retrieve credentials\ncaused by: AccessDenied: Not authorized to perform sts:AssumeRoleWithWebIdentity\n          status code: 403"},
	{"ebs.csi.aws.com", "rpc error: code = Internal desc = NoCredentialProviders: no valid providers in chain\ncaused by: EnvAccessKeyNotFound: failed to find credentials in the environment."},
	{"ebs.csi.aws.com", "api\nerror VolumeLimitExceeded: You have exceeded your maximum io2 storage limit of\n30 TiB in this region."},
	{"ebs.csi.aws.com", "Got RequestLimitExceeded error on AWS request (ec2::ModifyVolume)"},
	{"ebs.csi.aws.com", "You've reached the maximum modification rate per volume limit. Wait at least 6 hours between modifications per EBS volume"},
	{"ebs.csi.aws.com", "InvalidParameterValue: Invalid value '/dev/xvdb' for unixDevice. Attachment point /dev/xvdb is already in use"},
	{"efs.csi.aws.com", "Failed to create access point: AccessPointLimitExceeded: You have reached the maximum number of access points"},
	{"efs.csi.aws.com", "mount.nfs4: access denied by server while mounting 127.0.0.1:/"},
	{"pd.csi.storage.gke.io", "googleapi: Error 400: The disk resource 'projects/blabla/zones/blablazone/disks/gcp-dynam-pvc-id' is already being used by 'projects/blabla/zones/blablazone/instances/node1'"},
	{"pd.csi.storage.gke.io", "googleapi: Error 403: Quota 'SSD_TOTAL_GB' exceeded.  Limit: 100.0 in region us-west1., quotaExceeded"},
	{"pd.csi.storage.gke.io", "rpc error: code = Internal desc = CreateVolume failed to create single zonal disk \"pvc-2644d818\": failed to insert zonal disk: unknown Insert disk error: googleapi: Error 403: Required 'compute.snapshots.useReadOnly' permission for 'projects/my-project/global/snapshots/bsc-dataseed-0429-2', forbidden"},
	{"pd.csi.storage.gke.io", `ControllerPublish not permitted on node "XYZ" due to backoff condition`},
	{"disk.csi.azure.com", `"message": "The maximum number of data disks allowed to be attached to a VM of this size is 16."`},
	{"disk.csi.azure.com", "disk(/subscriptions/xxx/disks/pvc-4521fb02) already attached to node(/subscriptions/xxx7a/virtualMachines/aks_33), could not be attached to node(aks-agentpool-15002531-vmss00000x)"},
	{"disk.csi.azure.com", "Disk /subscriptions/s/disks/d cannot be attached to the VM because it is not in zone '2'."},
	{"disk.csi.azure.com", `RawError: {"error":{"code":"LinkedAuthorizationFailed","message":"The client '<client>' has permission to perform action 'Microsoft.Compute/disks/write'"}}`},
	{"disk.csi.azure.com", `rpc error: code = NotFound desc = failed to get azure instance id for node "k3s-vm0" (instance not found)`},
	{"file.csi.azure.com", `Retriable: false, RetryAfter: 16s, HTTPStatusCode: 429, RawError: {"error":{"code":"TooManyRequests"`},
	{"file.csi.azure.com", `RawError: azure cloud provider throttled for operation StorageAccountListByResourceGroup with reason "client throttled"`},
	{"file.csi.azure.com", `Status=<nil> Code="TotalSharesProvisionedCapacityExceedsAcco`},
	{"file.csi.azure.com", "Output: mount error(13): Permission denied\nRefer to the mount.cifs(8) manual page"},
	{"csi.vsphere.vmware.com", `LocalizedMessage: (string) (len=32) \"The resource 'volume' is in use.\"\n})\n". opId: "2bdbfb61"`},
	{"csi.vsphere.vmware.com", `failed to attach disk: "63d4e68c" with node: "worker0" err ServerFaultCode: NoPermission`},
	{"csi.vsphere.vmware.com", "No compatible datastore found for storagePolicy"},
	{"cinder.csi.openstack.org", `{"overLimit": {"message": "VolumeLimitExceeded: Maximum number of volumes allowed (10) exceeded for quota 'volumes'.", "code": 413, "retryAfter": "0"}}`},
	{"cinder.csi.openstack.org", `{"badRequest": {"message": "Invalid input received: Invalid volume: Volume b5651fbc-aaf3-4e8c-8fae-0c96b222f103 status must be available or downloading (HTTP 400)", "code": 400}}`},
	{"cinder.csi.openstack.org", "the instance and the volume are not in the same availability_zone."},
	{"rbd.csi.ceph.com", "rpc error: code = Internal desc = rbd image k8s-dev/csi-vol-dea80a4e-85b6-46e2-9d08-ffba10ef7825 is still being used"},
	{"rook-ceph.rbd.csi.ceph.com", "rbd error output: rbd: sysfs write failed\nrbd: map failed: (1) Operation not permitted"},
	{"rbd.csi.ceph.com", "error rbd: sysfs write failed rbd: map failed: (13) Permission denied"},
	{"rbd.csi.ceph.com", "RBD image feature set mismatch. You can disable features unsupported by the kernel"},
	{"rook-ceph.rbd.csi.ceph.com", "librbd::image::RemoveRequest: 0x55d1092f5670 check_image_watchers: image has watchers - not removing"},
	{"rbd.csi.ceph.com", "rbd: image has snapshots - these must be deleted with 'rbd snap purge' before the image can be removed."},
	{"rook-ceph.cephfs.csi.ceph.com", "-1 failed for service _ceph-mon._tcp\nmount error 13 = Permission denied"},
	{"driver.longhorn.io", "rpc error: code = Aborted desc = volume pvc-62702773 is not ready for workloads"},
	{"driver.longhorn.io", "globalmount: /dev/longhorn/pvc-8ffdf006 already mounted or mount point busy."},
	{"driver.longhorn.io", "Body: [detail=, message=unable to attach volume pvc-01c32834 to k8s-worker-node1: volume pvc-01c32834 not scheduled, code=Server Error]"},
	{"topolvm.io", "rpc error: code = Internal desc = not enough space"},
	{"local.csi.openebs.io", `rpc error: code = ResourceExhausted desc = no vg available to serve volume request having regex="^lvmpv-vg$" & capacity="4294967296"`},
	{"io.openebs.csi-mayastor", "rpc error: code = ResourceExhausted desc = Cannot find suitable storage pool(s) for the volume"},
	{"io.openebs.csi-mayastor", "SvcError :: NotEnoughResources: Operation failed due to insufficient resources kind: ResourceExhausted"},
	{"cstor.csi.openebs.io", "Not enough pools are available of provided CSPC"},
	{"zfs.csi.openebs.io", "rpc error: code = Internal desc = not able to provision the volume, nodes [apollon], err : zfs: volume creation failed"},
	{"org.democratic-csi.iscsi", `iscsiadm: initiator reported error (19 - encountered non-retryable iSCSI login failure)\niscsiadm: Could not log into all portals\n`},
	{"org.democratic-csi.iscsi", "Error: cannot destroy 'fast/k8s/data/pvc-2fc4280e': dataset is busy"},
	{"org.democratic-csi.nfs", `the operation fails with a "Disk quota exceeded" error`},
	{"dobs.csi.digitalocean.com", "rpc error: code = ResourceExhausted desc = volume limit (7) has been reached. Current number of volumes: 7. Please contact support."},
	{"dobs.csi.digitalocean.com", "error resizing volume: volume/snapshot capacity limit exceeded"},
	{"linodebs.csi.linode.com", "rpc error: code = ResourceExhausted desc = max number of volumes (8) already attached to instance"},
	{"csi.hetzner.cloud", "rpc error: code = Internal desc = failed to publish volume: maximum number of volumes already attached to the server (resource_limit_exceeded"},
	{"pxd.portworx.com", "rpc error: code = AlreadyExists desc = Volume is attached on another node"},
	{"csi.trident.netapp.io", "no available backends for storage class basic"},
	{"csi.trident.netapp.io", "rpc error: code = Unknown desc = volume state is still Creating, not Succeeded"},
	{"rbd.csi.ceph.com", `failed to provision volume with StorageClass "csi-rbd-sc": rpc error: code = Aborted desc = an operation with the given Volume ID ... already exists`},
	{"nfs.csi.k8s.io", "Output: mount.nfs: access denied by server while mounting <<IP>>2:/CI_Kubernetes_NFS"},
	{"nfs.csi.k8s.io", "Output: mount.nfs: rpc.statd is not running but is required for remote locking."},
	{"nfs.csi.k8s.io", "mount: /mnt/test: bad option; for several filesystems (e.g. nfs, cifs) you might need a /sbin/mount.<type> helper program."},
	{"smb.csi.k8s.io", "Output: mount error(13): Permission denied\nRefer to the mount.cifs(8) manual page (e.g. man mount.cifs)"},
	{"smb.csi.k8s.io", "Output: mount error(2): No such file or directory"},
}

// Each row is found by the message of its thread, and by no other one's: no row hides another.
func TestDriverErrors(t *testing.T) {
	if len(reported) != len(driverErrors) {
		t.Fatalf("%d messages for %d rows", len(reported), len(driverErrors))
	}
	thread := regexp.MustCompile(`^[\w.-]+/[\w.-]+#\d+$`)
	for i := range driverErrors {
		row := &driverErrors[i]
		if got := knownError(reported[i].driver, reported[i].message); got != row {
			t.Errorf("row %d, %q: found %+v", i, row.text, got)
		}
		answer := readAnswer(reported[i].driver, reported[i].message)
		if !answer.isKnown || answer.actor != row.actor || !strings.Contains(answer.step.Text, row.thread) {
			t.Errorf("row %d: %+v", i, answer)
		}
		if row.text != strings.ToLower(row.text) || row.actor == Itself || !thread.MatchString(row.thread) ||
			row.meaning == "" || row.advice == "" {
			t.Errorf("row %d is not complete: %+v", i, row)
		}
		for j := range i {
			earlier := &driverErrors[j]
			if strings.Contains(row.driver, earlier.driver) && strings.Contains(row.text, earlier.text) {
				t.Errorf("row %d, %q, hides row %d, %q", j, earlier.text, i, row.text)
			}
		}
	}
}

// A text of another driver, of a name in the message or of a user is not taken for the driver's, and its words
// do not get into the advice.
func TestForeignErrors(t *testing.T) {
	for driver, message := range map[string]string{
		"disk.example.com": "rpc error: code = Internal desc = AttachmentLimitExceeded",
		"":                 "rpc error: code = Internal desc = not enough space",
		"topolvm.io":       `failed to provision volume with StorageClass "not enough space": rpc error: code = Internal desc = no`,
		"nfs.csi.k8s.io":   strings.Repeat("\x00\xff\u202e mount", 100_000),
	} {
		if answer := readAnswer(driver, message); answer.isKnown {
			t.Errorf("%q of %q: %+v", message, driver, answer.step)
		}
	}
	hostile := "\x1b[2J; rm -rf / $(reboot)\u202e mount error(2): No such file or directory"
	want := driverErrors[len(driverErrors)-1].step()
	if got := readAnswer("smb.csi.k8s.io", hostile); got.step != want || got.words != hostile {
		t.Errorf("%+v", got)
	}
}
