package explain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// What keeps a pod from starting on its node after its volumes are attached.

// claimNamedTwice finds two volumes of a pod with one claim. The kubelet mounts the volume for one
// of them, and some kubelets wait for the other for good.
func (c *Cluster) claimNamedTwice(pod *corev1.Pod) []Finding {
	if VolumesMounted(pod) || c.Now.Sub(pod.CreationTimestamp.Time) < patience {
		return nil
	}
	seen := map[types.NamespacedName]string{}
	for _, volume := range podVolumes(pod) {
		first, twice := seen[volume.claim]
		if seen[volume.claim] = volume.name; !twice {
			continue
		}
		f := findingAbout(podRef(pod), &pod.CreationTimestamp.Time).waits(verdict.MountFailed, User,
			"volumes %s and %s, which both name claim %s: the kubelet mounts only one of them",
			first, volume.name, volume.claim.Name)
		f.Evidence = []Evidence{
			{podRef(pod), "spec.volumes[" + first + "].persistentVolumeClaim.claimName", volume.claim.Name, ""},
			{
				podRef(pod), "spec.volumes[" + volume.name + "].persistentVolumeClaim.claimName", volume.claim.Name,
				"absent",
			},
		}
		f.Fix = []Step{{
			Text: "Create the pod again with one entry in spec.volumes, mounted at both paths, with subPath where " +
				"the paths show parts of it",
			Risk: "the pod is stopped meanwhile; the volume keeps its data",
		}}
		return []Finding{f}
	}
	return nil
}

// pluginGone is about a driver that the CSINode lists while its DaemonSet has no pod on the node
// that is ready: the CSINode keeps the entry when the pod is gone.
func (c *Cluster) pluginGone(pod *corev1.Pod, driver string, f Finding) []Finding {
	node := c.index.nodes[pod.Spec.NodeName]
	w := c.nodePlugin(driver)
	if w == nil || node == nil || c.lacks(Pod) || VolumesMounted(pod) ||
		c.Now.Sub(pod.CreationTimestamp.Time) < patience {
		return nil
	}
	f = f.about(w.ref).waits(verdict.NodePluginAbsent, Administrator,
		"the node plugin of driver %q on node %s, where %s has no pod that is ready", driver, node.Name, w)
	ref := Ref{Kind: CSINode, Name: node.Name}
	f.Evidence = []Evidence{{ref, "spec.drivers", driver, "a pod of the driver that is ready"}}
	f.Fix = []Step{{
		Text:    "Read why the DaemonSet has no pod on the node. The entry in the CSINode is of an earlier pod",
		Command: shell.Command("kubectl describe %s %s", w.ref.Kind.Short(), w.ref.Name).In(w.ref.Namespace),
	}}
	for _, plugin := range c.index.podsOf[w.ref] {
		switch {
		case plugin.Spec.NodeName != node.Name:
			continue
		case isPodReady(plugin):
			return nil
		}
		f.Cause, f.Evidence = podRef(plugin), append(f.Evidence, readyEvidence(plugin))
		return []Finding{f}
	}
	if kept := keptAway(w, node); kept != nil {
		f.Reason, f.Evidence = verdict.NodePluginKeptAway, append(f.Evidence, kept...)
		f.WaitsFor = fmt.Sprintf(
			"the node plugin of driver %q on node %s, which %s is kept away from", driver, node.Name, w,
		)
	}
	return []Finding{f}
}

// permissionChange is the event of a kubelet that sets the owner of every file of a volume.
const permissionChange = "VolumePermissionChangeInProgress"

const onRootMismatch = corev1.FSGroupChangeOnRootMismatch

// changesOwner reports whether the kubelet gives every file of the pod's volumes to a group.
func changesOwner(pod *corev1.Pod) bool {
	s := pod.Spec.SecurityContext
	return s != nil && s.FSGroup != nil && deref(s.FSGroupChangePolicy) != onRootMismatch
}

// ownerChange is about a pod for which the kubelet changes the owner of the files of a volume,
// unless a newer event has another cause.
func (c *Cluster) ownerChange(pod *corev1.Pod) *Finding {
	event := c.lastEvent(podRef(pod), permissionChange)
	if event == nil || VolumesMounted(pod) {
		return nil
	}
	failure := c.mountFailure(pod)
	if failure != nil && !isWaitTimeout(failure.Message) && EventTime(failure).After(EventTime(event)) {
		return nil
	}
	until := EventTime(event).Add(ordinary)
	f := findingAbout(podRef(pod), &pod.CreationTimestamp.Time).waits(verdict.PermissionChangeUnderWay, Itself,
		"the kubelet of node %s, which gives each file of the volume to the group of the pod", pod.Spec.NodeName)
	f.Until, f.Evidence = &until, []Evidence{eventEvidence(event, c.Now)}
	for _, pv := range c.boundVolumes(pod) {
		if strings.Contains(event.Message, "/"+pv.Name+"/") || len(podVolumes(pod)) == 1 {
			f.Cause = volumeRef(pv)
			f.Evidence = append(f.Evidence, Evidence{
				f.Cause, "spec.capacity.storage", pv.Spec.Capacity.Storage().String(), "",
			})
			break
		}
	}
	f.Evidence = append(f.Evidence, ownerEvidence(pod)...)
	f.Fix = ownerAdvice(pod)
	if !c.Now.Before(until) {
		f.Actor, f.Until = Administrator, nil
		f.Fix = append([]Step{{
			Text: "The kubelet reports its progress every minute and has not for " + age(c.Now.Sub(EventTime(event))) +
				": read its log on the node",
			Command: shell.Command("kubectl describe node %s", pod.Spec.NodeName),
		}}, f.Fix...)
	}
	return &f
}

func ownerEvidence(pod *corev1.Pod) []Evidence {
	if !changesOwner(pod) {
		return nil
	}
	s := pod.Spec.SecurityContext
	return []Evidence{
		{podRef(pod), "spec.securityContext.fsGroup", fmt.Sprint(*s.FSGroup), ""},
		{
			podRef(pod), "spec.securityContext.fsGroupChangePolicy",
			quoted(string(deref(s.FSGroupChangePolicy))), string(onRootMismatch),
		},
	}
}

func ownerAdvice(pod *corev1.Pod) []Step {
	if !changesOwner(pod) {
		return []Step{{Text: "Nothing: the root of the volume has another group, so its files are changed once"}}
	}
	return []Step{{
		Text: "Let it finish: a pod that is created again begins anew. For later starts set fsGroupChangePolicy: " +
			"OnRootMismatch in the pod's workload; the kubelet then looks at the root of the volume only",
	}}
}

// noAnswer matches the texts of mounts that the server did not answer or did not allow for this
// client.
var noAnswer = regexp.MustCompile(`(?i)connection timed out|no route to host|network is unreachable|host is down|` +
	`connection refused|unable to connect|error connecting to the cluster|access denied by server`)

// serverOf returns the server that a volume is on, in the words of its source; empty if that is not
// known.
func serverOf(pv *corev1.PersistentVolume) string {
	switch s := &pv.Spec.PersistentVolumeSource; {
	case s.NFS != nil:
		return s.NFS.Server
	case s.CephFS != nil:
		return strings.Join(s.CephFS.Monitors, ",")
	case s.RBD != nil:
		return strings.Join(s.RBD.CephMonitors, ",")
	case s.ISCSI != nil:
		return s.ISCSI.TargetPortal
	case s.CSI != nil:
		of := s.CSI.VolumeAttributes
		return cmp.Or(of["server"], of["monitors"], of["clusterID"])
	}
	return ""
}

// serverUnreachable is about a mount that the server did not answer, while a pod on another node
// runs with a volume of that server.
func (c *Cluster) serverUnreachable(pod *corev1.Pod, event *corev1.Event, f Finding) (Finding, bool) {
	if !noAnswer.MatchString(event.Message) {
		return f, false
	}
	for _, pv := range c.boundVolumes(pod) {
		server := serverOf(pv)
		if server == "" || len(podVolumes(pod)) > 1 && !strings.Contains(event.Message, pv.Name) {
			continue
		}
		other, also := c.reaches(server, pod.Spec.NodeName)
		if other == nil {
			continue
		}
		node := Ref{Kind: Node, Name: pod.Spec.NodeName}
		f = f.about(node).waits(verdict.ServerUnreachable, Administrator,
			"server %s to answer node %s; node %s reaches it", server, node.Name, other.Spec.NodeName)
		f.Evidence = []Evidence{
			eventEvidence(event, c.Now),
			{podRef(other), "spec.nodeName", other.Spec.NodeName, ""},
			{volumeRef(also), "server of the volume, which that pod has mounted", server, ""},
		}
		f.Fix = []Step{{
			Text: "Compare the two nodes: the network between the node and the server (firewall, security group, " +
				"route, name resolution), and the addresses that the server exports to",
			Command: shell.Command("kubectl get node -o wide").With(node.Name, other.Spec.NodeName),
		}}
		return f, true
	}
	return f, false
}

// reaches returns a pod that has run on another node with a volume of the server, and the volume.
func (c *Cluster) reaches(server, except string) (*corev1.Pod, *corev1.PersistentVolume) {
	for _, pod := range c.Pods {
		node := c.index.nodes[pod.Spec.NodeName]
		if pod.Spec.NodeName == except || pod.Status.Phase != corev1.PodRunning || node == nil || !isReady(node) {
			continue
		}
		for _, pv := range c.boundVolumes(pod) {
			if serverOf(pv) == server {
				return pod, pv
			}
		}
	}
	return nil, nil
}

// refuting are the reasons of events that show that what an earlier event says has passed.
var refuting = map[string][]string{
	"FailedMount":        {"Pulling", "Pulled", "Created", "Started"},
	"FailedMapVolume":    {"Pulling", "Pulled", "Created", "Started"},
	permissionChange:     {"Pulling", "Pulled", "Created", "Started"},
	"FailedAttachVolume": {"SuccessfulAttachVolume"},
	"ProvisioningFailed": {"ProvisioningSucceeded"},
	"VolumeResizeFailed": {"VolumeResizeSuccessful", "FileSystemResizeSuccessful"},
}

// secretNotFound matches the kubelet's words about a secret that a volume of the pod is made from.
var secretNotFound = regexp.MustCompile(`secrets? "([^"]+)" not found`)

// refuted reports whether a later event of the object, or what exists now, shows that an event has
// passed: its secret exists, or the node plugin has become ready after it.
func (c *Cluster) refuted(about Ref, event *corev1.Event) bool {
	at := EventTime(event)
	for _, later := range c.index.events[about] {
		if !EventTime(later).After(at) {
			break
		}
		if slices.Contains(refuting[event.Reason], later.Reason) && namesSameVolume(event, later) {
			return true
		}
	}
	if event.Reason != "FailedMount" {
		return false
	}
	if found := secretNotFound.FindStringSubmatch(event.Message); found != nil && !c.lacks(Secret) {
		return c.index.secrets[types.NamespacedName{Namespace: about.Namespace, Name: found[1]}]
	}
	pod := c.index.pods[about.key()]
	return pod != nil && strings.Contains(event.Message, "list of registered CSI drivers") &&
		c.pluginReadySince(c.driverOfEvent(pod, event), pod.Spec.NodeName).After(at)
}

// namesSameVolume reports whether two messages name one volume, or one of them none.
func namesSameVolume(a, b *corev1.Event) bool {
	one, other := volumeInMessage.FindStringSubmatch(a.Message), volumeInMessage.FindStringSubmatch(b.Message)
	return one == nil || other == nil || one[1] == other[1]
}

// pluginReadySince is since when the driver's pod on the node is ready; zero if it is not, or not
// known.
func (c *Cluster) pluginReadySince(driver, node string) time.Time {
	w := c.nodePlugin(driver)
	if driver == "" || w == nil {
		return time.Time{}
	}
	for _, plugin := range c.index.podsOf[w.ref] {
		for _, condition := range plugin.Status.Conditions {
			if plugin.Spec.NodeName == node && condition.Type == corev1.PodReady &&
				condition.Status == corev1.ConditionTrue {
				return condition.LastTransitionTime.Time
			}
		}
	}
	return time.Time{}
}
