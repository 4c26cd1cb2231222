package daytwo

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	protection "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/internal/size"
)

// SchemaGrow names the form of `grow -o json`.
const SchemaGrow = "purser.grow/v1"

// GrowInput is all that a plan for larger claims of a StatefulSet is made from.
type GrowInput struct {
	Set      *appsv1.StatefulSet
	Template string // empty for the only one
	Size     resource.Quantity
	Claims   []corev1.PersistentVolumeClaim // of the namespace
	Volumes  map[string]*corev1.PersistentVolume
	Classes  map[string]*storagev1.StorageClass
	Drivers  map[string]bool // that have a CSIDriver object
	Quotas   []corev1.ResourceQuota
	Leases   []string // names of all Leases; nil if they could not be read
	Pods     []corev1.Pod
	// EvenIfOwned allows the change of a StatefulSet that another object controls.
	EvenIfOwned bool
}

// GrowClaim is a claim of the StatefulSet.
type GrowClaim struct {
	Name   string `json:"claim"`
	From   string `json:"from"`
	To     string `json:"to,omitempty"` // empty if it is large enough
	Class  string `json:"class,omitempty"`
	Driver string `json:"driver,omitempty"`
	Pod    string `json:"pod,omitempty"` // that uses it
}

// GrowPlan says what will be done, or why not.
type GrowPlan struct {
	Schema    string      `json:"schema"`
	Namespace string      `json:"namespace"`
	Set       string      `json:"statefulSet"`
	Template  string      `json:"template"`
	Size      string      `json:"size"`
	From      string      `json:"from"` // of the template
	Claims    []GrowClaim `json:"claims"`
	Replace   bool        `json:"replaceStatefulSet"`
	// Refused are the reasons why nothing is done.
	Refused []string `json:"refused,omitempty"`
	// Notes are what an administrator should know before.
	Notes []string `json:"notes,omitempty"`
}

// PlanGrowth returns the plan. It refuses everything if one claim cannot get the size.
func PlanGrowth(in GrowInput) GrowPlan {
	set := in.Set
	p := GrowPlan{
		Schema: SchemaGrow, Namespace: set.Namespace, Set: set.Name, Size: in.Size.String(), Claims: []GrowClaim{},
	}
	template := p.choose(in)
	if template == nil {
		return p
	}
	p.Template = template.Name
	have := template.Spec.Resources.Requests[corev1.ResourceStorage]
	p.From = have.String()
	if size.Compare(have, in.Size) > 0 {
		p.refuse(
			"the template %s asks for %s, which is more than %s: a claim cannot shrink", template.Name, p.From, p.Size,
		)
		return p
	}
	p.Replace = size.Compare(have, in.Size) < 0
	p.addClaims(in)
	p.checkQuotas(in)
	p.checkSet(in)
	return p
}

func (p *GrowPlan) refuse(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(p.Refused, text) {
		p.Refused = append(p.Refused, text)
	}
}

func (p *GrowPlan) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(p.Notes, text) {
		p.Notes = append(p.Notes, text)
	}
}

// IsDone reports whether there is nothing to do.
func (p GrowPlan) IsDone() bool {
	return len(p.Refused) == 0 && !p.Replace &&
		!slices.ContainsFunc(p.Claims, func(c GrowClaim) bool { return c.To != "" })
}

// choose returns the template that is named, or the only one.
func (p *GrowPlan) choose(in GrowInput) *corev1.PersistentVolumeClaim {
	templates := in.Set.Spec.VolumeClaimTemplates
	var all []string
	for i := range templates {
		all = append(all, templates[i].Name)
		if templates[i].Name == in.Template {
			return &templates[i]
		}
	}
	switch {
	case len(templates) == 0:
		p.refuse("the StatefulSet has no volumeClaimTemplates")
	case in.Template != "":
		p.refuse("the StatefulSet has no volumeClaimTemplate %s; there are: %s", in.Template, strings.Join(all, ", "))
	case len(templates) > 1:
		p.refuse(
			"the StatefulSet has several volumeClaimTemplates; choose one with --template: %s", strings.Join(all, ", "),
		)
	default:
		return &templates[0]
	}
	return nil
}

// addClaims adds the claims of the template, also those beyond the replicas, which a later pod
// would use.
func (p *GrowPlan) addClaims(in GrowInput) {
	pods := map[string]string{}
	for i := range in.Pods {
		for _, name := range protection.ClaimNames(&in.Pods[i]) {
			pods[name] = in.Pods[i].Name
		}
	}
	for i := range in.Claims {
		claim := &in.Claims[i]
		if templateOf(in.Set, claim.Name) != p.Template {
			continue
		}
		have := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		c := GrowClaim{Name: claim.Name, From: have.String(), Class: objects.ClaimClass(claim), Pod: pods[claim.Name]}
		if pv := in.Volumes[claim.Spec.VolumeName]; pv != nil {
			if source := csiOf(pv); source != nil {
				c.Driver = source.Driver
			}
		}
		if size.Compare(have, in.Size) < 0 {
			c.To = p.Size
			p.checkClaim(in, claim, c)
		}
		p.Claims = append(p.Claims, c)
	}
	slices.SortFunc(p.Claims, func(a, b GrowClaim) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
}

func (p *GrowPlan) checkClaim(in GrowInput, claim *corev1.PersistentVolumeClaim, c GrowClaim) {
	if claim.DeletionTimestamp != nil {
		p.refuse("pvc/%s is being deleted", c.Name)
	}
	if claim.Status.Phase != corev1.ClaimBound {
		p.refuse("pvc/%s is %s: only a bound claim can ask for more", c.Name, cmp.Or(claim.Status.Phase, "Pending"))
	}
	class := in.Classes[c.Class]
	switch {
	case c.Class == "":
		p.refuse("pvc/%s has no StorageClass, so the API server refuses a larger request", c.Name)
	case class == nil:
		p.refuse("pvc/%s: StorageClass %s does not exist", c.Name, c.Class)
	case class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion:
		p.refuse("StorageClass %s: allowVolumeExpansion is not true; if the driver can expand, set it: the field can "+
			"be changed",
			c.Class)
	}
	p.checkDriver(in, c)
}

func (p *GrowPlan) checkDriver(in GrowInput, c GrowClaim) {
	switch {
	case c.Driver == "":
		p.note(
			"pvc/%s: its volume is not of a CSI driver that is known; whether it can be expanded is not known", c.Name,
		)
	case !in.Drivers[c.Driver]:
		p.refuse("driver %s of pvc/%s has no CSIDriver object: it is not installed", c.Driver, c.Name)
	case in.Leases != nil:
		p.checkResizer(in.Leases, c.Driver)
	}
}

// checkResizer adds a note unless a Lease is that of a resizer of the driver. The resizer in a process
// of several sidecars has the Lease of the first of them, a csi-provisioner or a csi-attacher, which is
// as well that of such a sidecar alone (OC-5).
func (p *GrowPlan) checkResizer(leases []string, driver string) {
	lease := func(prefix string) string { // empty if there is none; LK-1
		name := prefix + names.SanitizeDriver(driver)
		if i := slices.IndexFunc(leases, func(l string) bool {
			return l == name || l == "x"+strings.ToLower(name)
		}); i >= 0 {
			return leases[i]
		}
		return ""
	}
	const resizer = "external-resizer-"
	if lease(resizer) != "" || slices.Contains(leases, resizer+driver) {
		return
	}
	if other := cmp.Or(lease(""), lease("external-attacher-leader-")); other != "" {
		p.note("whether a resizer of driver %s runs is not known: the Lease %s is that of another sidecar, or of a "+
			"process with several, such as a resizer; a resizer without leader election has none", driver, other)
		return
	}
	p.note("no Lease says that a resizer of driver %s runs; a resizer without leader election has none", driver)
}

// checkQuotas refuses what a quota would refuse: the API server counts the requests of claims.
func (p *GrowPlan) checkQuotas(in GrowInput) {
	var total int64
	byClass := map[string]int64{}
	for _, c := range p.Claims {
		if c.To == "" {
			continue
		}
		from, err := size.Parse(c.From)
		if err != nil {
			continue
		}
		more := bytesOf(in.Size) - bytesOf(from)
		total = size.Sum(total, more)
		byClass[c.Class] = size.Sum(byClass[c.Class], more)
	}
	for i := range in.Quotas {
		q := &in.Quotas[i]
		for name, hard := range q.Status.Hard {
			more := total
			switch class, isOfClass := strings.CutSuffix(
				string(name), ".storageclass.storage.k8s.io/requests.storage",
			); {
			case isOfClass:
				more = byClass[class]
			case name != corev1.ResourceRequestsStorage:
				continue
			}
			used := q.Status.Used[name]
			if more == 0 || size.Sum(bytesOf(used), more) <= bytesOf(hard) {
				continue
			}
			text := fmt.Sprintf("ResourceQuota %s: %s allows %s, %s are used, and %s more are needed", q.Name, name,
				hard.String(), used.String(), Bytes(more))
			if q.Spec.ScopeSelector != nil || len(q.Spec.Scopes) > 0 {
				p.note("%s; it has scopes, and may not count these claims", text)
				continue
			}
			p.refuse("%s", text)
		}
	}
}

// checkSet looks for what would undo the change, or be disturbed by it.
func (p *GrowPlan) checkSet(in GrowInput) {
	set := in.Set
	if set.DeletionTimestamp != nil {
		p.refuse("the StatefulSet is being deleted")
	}
	if !p.Replace {
		return
	}
	if owner := metav1.GetControllerOf(set); owner != nil && !in.EvenIfOwned {
		p.refuse("%s %s controls the StatefulSet, and may make it again with its own template: change the size "+
			"there, or repeat this with --even-if-owned", owner.Kind, owner.Name)
	}
	if set.Status.ObservedGeneration < set.Generation || set.Status.UpdateRevision != set.Status.CurrentRevision {
		p.note("a rollout of the StatefulSet is under way; it goes on after the replacement")
	}
	if by := managedBy(set); by != "" {
		p.note("%s wrote the StatefulSet: give the same size there, or its next update is refused", by)
	}
	p.note("pods keep running: the StatefulSet is deleted without them, and the new one adopts them by its selector")
	for _, entry := range set.ManagedFields {
		if entry.Operation == metav1.ManagedFieldsOperationApply {
			p.note("the owners of fields by server-side apply (such as %s) are not kept: the next apply may need "+
				"--force-conflicts", entry.Manager)
			break
		}
	}
}

// managedBy names the program whose manifest the StatefulSet is from; empty for none that is known.
func managedBy(set *appsv1.StatefulSet) string {
	switch {
	case set.Annotations["meta.helm.sh/release-name"] != "":
		return "Helm release " + set.Annotations["meta.helm.sh/release-name"]
	case set.Labels[names.LabelManagedBy] != "":
		return set.Labels[names.LabelManagedBy]
	case set.Annotations[corev1.LastAppliedConfigAnnotation] != "":
		return "kubectl apply"
	}
	return ""
}

// Replacement returns the StatefulSet that is created in place of the old one: the same but for the
// size of the template, and for what only the API server writes.
func Replacement(old *appsv1.StatefulSet, template string, to resource.Quantity) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: old.Namespace, Name: old.Name, Labels: old.Labels, Annotations: old.Annotations,
			OwnerReferences: old.OwnerReferences, Finalizers: keptFinalizers(old.Finalizers),
		},
		Spec: *old.Spec.DeepCopy(),
	}
	for i := range set.Spec.VolumeClaimTemplates {
		t := &set.Spec.VolumeClaimTemplates[i]
		t.Status = corev1.PersistentVolumeClaimStatus{}
		if t.Name == template {
			if t.Spec.Resources.Requests == nil {
				t.Spec.Resources.Requests = corev1.ResourceList{}
			}
			t.Spec.Resources.Requests[corev1.ResourceStorage] = to
		}
	}
	return set
}

// keptFinalizers leaves out those by which the garbage collector deletes the old object.
func keptFinalizers(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
}

// targetRef is the form of the argument of grow.
var targetRef = regexp.MustCompile(`^(?:sts|statefulset|statefulsets|statefulset\.apps|statefulsets\.apps)/([^/]+)$`)

// ParseTarget reads sts/NAME.
func ParseTarget(text string) (string, error) {
	if m := targetRef.FindStringSubmatch(text); m != nil {
		return m[1], nil
	}
	return "", fmt.Errorf("%q: expected sts/NAME", text)
}
