package life

import (
	"strings"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// schedulerName is the field manager of the scheduler.
const schedulerName = "kube-scheduler"

// managerLanes are the lanes of programs that do the work of one lane alone. Others, such as
// kube-controller-manager and purser, do that of several; what was written tells which.
var managerLanes = []struct {
	prefix string
	lane   Lane
}{
	{schedulerName, Scheduler},
	{"kubelet", Node},
	{"kubectl", User},
	{"csi-provisioner", Provisioner},
	{"csi-attacher", Attacher},
	{"csi-resizer", Resizer},
	{"csi-snapshotter", Snapshotter},
	{"snapshot-controller", Snapshotter},
}

// byManager returns the lane of a change: that of the program that wrote it if that has one lane,
// else the given one.
func byManager(lane Lane, by []string) Lane {
	if len(by) != 1 {
		return lane
	}
	return componentLane(by[0], lane)
}

// componentLane returns the lane of a program or of the component of an event; otherwise if it has
// none.
func componentLane(name string, otherwise Lane) Lane {
	for _, m := range managerLanes {
		if strings.HasPrefix(name, m.prefix) {
			return m.lane
		}
	}
	switch {
	case name == "default-scheduler":
		return Scheduler
	case strings.HasPrefix(name, "persistentvolume-controller"):
		return Binder
	case strings.HasPrefix(name, "attachdetach-controller"):
		return AttachDetach
	case strings.HasPrefix(name, "external-resizer"), strings.HasPrefix(name, "volume_expand"):
		return Resizer
	case strings.Contains(name, "_"): // DRIVER_POD_ID is the component of a csi-provisioner
		return Provisioner
	}
	return otherwise
}

// finalizerLane returns the lane of the controller that adds and removes a finalizer.
func finalizerLane(name string) Lane {
	switch {
	case name == names.FinalizerVolume, name == names.FinalizerInTree, name == names.FinalizerCloneSource,
		name == names.FinalizerRestoreSource:
		return Provisioner
	case strings.HasPrefix(name, "external-attacher/"):
		return Attacher
	case strings.HasPrefix(name, "snapshot.storage.kubernetes.io/"),
		strings.HasPrefix(name, "groupsnapshot.storage.kubernetes.io/"):
		return Snapshotter
	case strings.HasPrefix(name, "kubernetes.io/"):
		return Protection
	}
	return User
}

// reasonLanes are the lanes of the controllers whose decisions have a reason, by the begin of its
// name. The first that matches counts.
var reasonLanes = []struct {
	prefix string
	lane   Lane
}{
	{"DriverSlow", Driver},
	{"DriverNot", Node},
	{"Driver", Driver},
	{"NodePlugin", Node},
	{"NodeTopology", Provisioner},
	{"Snapshot", Snapshotter},
	{"Content", Snapshotter},
	{"Group", Snapshotter},
	{"Attachment", Attacher},
	{"Attaching", Attacher},
	{"Detaching", Attacher},
	{"AttacherSilent", Attacher},
	{"Attach", AttachDetach},
	{"Detach", AttachDetach},
	{"Resize", Resizer},
	{"Modif", Resizer},
	{"Expansion", Resizer},
	{"Scheduler", Scheduler},
	{"PodUnsched", Scheduler},
	{"WaitForPodScheduled", Scheduler},
	{"WaitForFirstConsumer", User},
	{"WaitForConsumer", User},
	{"Mount", Node},
	{"Pod", Node},
	{"Publish", Node},
	{"Unpublish", Node},
	{"Stage", Node},
	{"Unstage", Node},
	{"Node", Node},
	{"Kubelet", Node},
	{"Provision", Provisioner},
	{"Create", Provisioner},
	{"Source", Provisioner},
	{"Secret", Provisioner},
	{"Volume", Provisioner},
	{"Delete", Provisioner},
	{"Deletion", Provisioner},
	{"Topology", Provisioner},
	{"Protection", Protection},
	{"ClaimStillUsed", Protection},
	{"Finalizer", Protection},
	{"ClaimBlocked", Protection},
	{"Claim", Binder},
	{"Binder", Binder},
	{"Class", Binder},
	{"External", Provisioner},
}

// reasonLane returns the lane of a finding where no later change tells it.
func reasonLane(f *explain.Finding) Lane {
	if f.Actor == explain.User && f.Reason != verdict.ClaimStillUsed {
		return User
	}
	for _, r := range reasonLanes {
		if strings.HasPrefix(string(f.Reason), r.prefix) {
			return r.lane
		}
	}
	return NoLane
}
