package daytwo

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	protection "github.com/purser-csi/purser/internal/protection/rules"
)

// SchemaUsage names the form of `df -o json`.
const SchemaUsage = "purser.df/v1"

// Statistic is what a kubelet says of the volume of a claim. A nil field is not said.
type Statistic struct {
	Time               time.Time
	Capacity, Used     *uint64
	Inodes, InodesUsed *uint64
	Available          *uint64
}

// NodeAnswer is what one kubelet said.
type NodeAnswer struct {
	Claims map[types.NamespacedName]Statistic
	Err    string // why it did not answer; empty if it did
}

// UsageInput is all that a table of usage is made from.
type UsageInput struct {
	Now     time.Time
	Claims  []corev1.PersistentVolumeClaim
	Volumes []corev1.PersistentVolume
	Pods    []corev1.Pod
	Nodes   map[string]NodeAnswer // those that were asked
	// Agents has the statistics of node agents, which are on nodes without a kubelet.
	Agents map[types.NamespacedName]Statistic
	// Driver has the bytes that volumes take in the backend, by driver and handle, where the driver
	// says so.
	Driver map[string]map[string]Allocation
	Unread []string // what could not be read, and why
	// PodsUnread is set if the pods could not be read, so that no node is known that has a volume.
	PodsUnread bool
}

// Allocation is what a driver says of a volume, mounted or not.
type Allocation struct {
	Capacity  int64
	Allocated int64 // bytes that the volume takes in the backend; negative if unknown
}

// Usage is one claim.
type Usage struct {
	Namespace string   `json:"namespace"`
	Claim     string   `json:"claim"`
	Volume    string   `json:"volume,omitempty"`
	Class     string   `json:"class,omitempty"`
	Driver    string   `json:"driver,omitempty"`
	Nodes     []string `json:"nodes,omitempty"` // on which a pod uses it

	CapacityBytes *int64   `json:"capacityBytes,omitempty"`
	UsedBytes     *int64   `json:"usedBytes,omitempty"`
	Percent       *float64 `json:"usedPercent,omitempty"`
	Inodes        *int64   `json:"inodes,omitempty"`
	InodesUsed    *int64   `json:"inodesUsed,omitempty"`
	InodePercent  *float64 `json:"inodesUsedPercent,omitempty"`

	Source string     `json:"source,omitempty"` // of the used bytes: kubelet, agent or driver
	At     *time.Time `json:"at,omitempty"`     // of the statistics
	Level  Level      `json:"level"`
	Why    string     `json:"unknown,omitempty"` // why the used bytes are unknown
}

// UsageReport is the answer of df.
type UsageReport struct {
	Schema string    `json:"schema"`
	Time   time.Time `json:"time"`
	Claims []Usage   `json:"claims"`
	// Silent are the nodes whose kubelet did not answer, with the reason.
	Silent map[string]string `json:"nodesWithoutAnswer,omitempty"`
	Unread []string          `json:"unread,omitempty"`

	podsUnread bool
}

// UsageOptions select and order the claims.
type UsageOptions struct {
	Warn, Critical float64 // percent
	Sort           string  // one of UsageOrders
}

// UsageOrders are the orders of the table.
var UsageOrders = []string{"percent", "used", "capacity", "inodes", "name"}

// MountingNodes returns the nodes with a pod that uses one of the claims, and those nodes by claim.
func MountingNodes(
	pods []corev1.Pod, claims []corev1.PersistentVolumeClaim,
) ([]string, map[types.NamespacedName][]string) {
	wanted := map[types.NamespacedName]bool{}
	for i := range claims {
		wanted[types.NamespacedName{Namespace: claims[i].Namespace, Name: claims[i].Name}] = true
	}
	all, byClaim := map[string]bool{}, map[types.NamespacedName][]string{}
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, name := range protection.ClaimNames(pod) {
			key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
			if wanted[key] && !slices.Contains(byClaim[key], pod.Spec.NodeName) {
				all[pod.Spec.NodeName] = true
				byClaim[key] = append(byClaim[key], pod.Spec.NodeName)
			}
		}
	}
	return slices.Sorted(maps.Keys(all)), byClaim
}

// RankUsage returns the claims with their usage, the fullest first.
func RankUsage(in UsageInput, o UsageOptions) UsageReport {
	report := UsageReport{
		Schema: SchemaUsage, Time: in.Now.UTC(), Claims: []Usage{}, Silent: map[string]string{}, Unread: in.Unread,
		podsUnread: in.PodsUnread,
	}
	for name, node := range in.Nodes {
		if node.Err != "" {
			report.Silent[name] = node.Err
		}
	}
	volumes := map[string]*corev1.PersistentVolume{}
	for i := range in.Volumes {
		volumes[in.Volumes[i].Name] = &in.Volumes[i]
	}
	_, nodes := MountingNodes(in.Pods, in.Claims)
	for i := range in.Claims {
		claim := &in.Claims[i]
		u := usageOf(claim, volumes[claim.Spec.VolumeName])
		u.Nodes = nodes[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}]
		slices.Sort(u.Nodes)
		u.fill(claim, volumes[claim.Spec.VolumeName], in)
		u.Level = u.levelOf(o)
		report.Claims = append(report.Claims, u)
	}
	slices.SortFunc(report.Claims, orderOf(o.Sort))
	return report
}

// usageOf returns what the objects say of a claim.
func usageOf(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) Usage {
	u := Usage{Namespace: claim.Namespace, Claim: claim.Name, Volume: claim.Spec.VolumeName}
	if claim.Spec.StorageClassName != nil {
		u.Class = *claim.Spec.StorageClassName
	}
	capacity, known := claim.Status.Capacity[corev1.ResourceStorage]
	if volume != nil {
		if volume.Spec.CSI != nil {
			u.Driver = volume.Spec.CSI.Driver
		}
		if !known {
			capacity, known = volume.Spec.Capacity[corev1.ResourceStorage]
		}
	}
	if known {
		u.CapacityBytes = new(bytesOf(capacity))
	}
	return u
}

// fill adds the newest statistic of the kubelets, else that of a node agent, else what the driver says,
// else why it is unknown.
func (u *Usage) fill(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, in UsageInput) {
	key := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	source, newest := "kubelet", (*Statistic)(nil)
	for _, node := range u.Nodes {
		s, found := in.Nodes[node].Claims[key]
		if found && (newest == nil || s.Time.After(newest.Time)) {
			newest = &s
		}
	}
	if s, found := in.Agents[key]; found && newest == nil {
		source, newest = "agent", &s
	}
	isBlock := claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == corev1.PersistentVolumeBlock
	if newest != nil && !isBlock {
		u.fromNode(source, *newest)
	}
	if u.UsedBytes != nil {
		return
	}
	if volume != nil && volume.Spec.CSI != nil {
		a, said := in.Driver[volume.Spec.CSI.Driver][volume.Spec.CSI.VolumeHandle]
		if said && a.Allocated >= 0 {
			u.UsedBytes, u.Source = new(a.Allocated), "driver"
			u.Percent = percent(u.UsedBytes, u.CapacityBytes)
			return
		}
	}
	u.Why = u.unknownReason(claim, isBlock, in)
}

func (u *Usage) fromNode(source string, s Statistic) {
	u.Source, u.At = source, new(s.Time.UTC())
	if c := signed(s.Capacity); c != nil && *c > 0 {
		u.CapacityBytes = c
	}
	u.UsedBytes, u.Inodes, u.InodesUsed = signed(s.Used), signed(s.Inodes), signed(s.InodesUsed)
	u.Percent = percent(u.UsedBytes, u.CapacityBytes)
	// What root alone may use counts as used, as for df: else a full volume has 95 %.
	if a := signed(s.Available); a != nil && u.UsedBytes != nil && *u.UsedBytes+*a > 0 {
		u.Percent = percent(u.UsedBytes, new(*u.UsedBytes+*a))
	}
	u.InodePercent = percent(u.InodesUsed, u.Inodes)
}

func (u *Usage) unknownReason(claim *corev1.PersistentVolumeClaim, isBlock bool, in UsageInput) string {
	switch {
	case claim.Status.Phase != corev1.ClaimBound:
		return "the claim is " + string(cmp.Or(claim.Status.Phase, corev1.ClaimPending))
	case len(u.Nodes) == 0 && in.PodsUnread:
		return "the pods could not be read"
	case len(u.Nodes) == 0:
		return "no pod uses it"
	case isBlock:
		return "a raw device: only its pod knows"
	}
	for _, node := range u.Nodes {
		if in.Nodes[node].Err != "" {
			return "node " + node + " did not answer"
		}
	}
	return "the kubelet has no statistics of it yet, or the driver has none"
}

func (u *Usage) levelOf(o UsageOptions) Level {
	highest := -1.0
	for _, p := range []*float64{u.Percent, u.InodePercent} {
		if p != nil {
			highest = max(highest, *p)
		}
	}
	switch {
	case highest < 0:
		return Unknown
	case highest >= o.Critical:
		return Critical
	case highest >= o.Warn:
		return Warning
	}
	return Good
}

// signed returns a number of a kubelet; nil for none, and for one that no volume has.
func signed(n *uint64) *int64 {
	if n == nil || *n > 1<<62 {
		return nil
	}
	return new(int64(*n))
}

func percent(part, whole *int64) *float64 {
	if part == nil || whole == nil || *whole <= 0 {
		return nil
	}
	return new(float64(*part) / float64(*whole) * 100)
}

// orderOf returns the order of the table. Claims without the number come last; the name decides.
func orderOf(order string) func(a, b Usage) int {
	number := func(u Usage) float64 {
		var n *float64
		switch order {
		case "name":
			return 0
		case "used":
			n = float(u.UsedBytes)
		case "capacity":
			n = float(u.CapacityBytes)
		case "inodes":
			n = u.InodePercent
		default:
			n = u.Percent
			if n != nil && u.InodePercent != nil {
				n = new(max(*n, *u.InodePercent))
			}
		}
		if n == nil {
			return -1
		}
		return *n
	}
	return func(a, b Usage) int {
		return cmp.Or(
			cmp.Compare(number(b), number(a)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Claim, b.Claim),
		)
	}
}

func float(n *int64) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}

// ExitCode is 1 if a claim is critically full, 2 if what was asked for could not be read, and else
// 0.
func (r UsageReport) ExitCode() int {
	if slices.ContainsFunc(r.Claims, func(u Usage) bool { return u.Level == Critical }) {
		return ExitFound
	}
	if len(r.Silent) > 0 || r.podsUnread {
		return ExitUnknown
	}
	return 0
}

// The exit codes of all commands.
const (
	ExitFound   = 1 // something is to be looked after, or failed
	ExitUnknown = 2
)
