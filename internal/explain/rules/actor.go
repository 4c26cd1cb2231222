package explain

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// What runs a component is found in this order:
//
//   - The pod that holds its lease, or the workload whose pods have such names.
//   - The workload with a container that has the name or the image of the component. Of several, the
//     one that has the most parts of the driver's name in its own names, images and host paths.
//   - Pods without a workload that have such a container: static pods of a control plane.

func derefOr[T any](value *T, or T) T {
	if value == nil {
		return or
	}
	return *value
}

// sidecars are the names of containers and images of the components.
var sidecars = []string{
	"csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter", "snapshot-controller", "kube-scheduler",
	"kube-controller-manager", registrar, "csi-node-driver-registrar", "driver-registrar", "liveness-probe",
	"livenessprobe", "csi-external-health-monitor-controller", "csi-snapshot-metadata",
	ours,
}

const (
	registrar = "node-driver-registrar"
	ours      = "purser" // runs any of the components
)

// IsSidecar reports whether a container has a name that is the same in many clusters.
func IsSidecar(name string) bool { return slices.Contains(sidecars, name) }

// SidecarImage returns the last part of the path of an image that belongs to a driver; empty for
// others.
func SidecarImage(image string) string {
	image = image[strings.LastIndex(image, "/")+1:]
	image, _, _ = strings.Cut(image, "@")
	image, _, _ = strings.Cut(image, ":")
	if IsSidecar(image) || strings.Contains(image, "csi") {
		return image
	}
	return ""
}

func hasContainer(spec *corev1.PodSpec, name string) bool {
	return slices.ContainsFunc(spec.Containers, func(container corev1.Container) bool {
		image := SidecarImage(container.Image)
		if image == ours && name != registrar {
			return true
		}
		return name != "" && (container.Name == name || image == name || image == "csi-"+name)
	})
}

// HasSidecar reports whether pods of the spec run a component.
func HasSidecar(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(sidecars, func(name string) bool { return hasContainer(spec, name) })
}

// runner is what runs a component: a workload, or pods that have none. proof is the field that
// shows it.
type runner struct {
	workload *workload
	pods     []*corev1.Pod
	proof    Evidence
}

func (c *Cluster) runnerOf(of component) runner {
	_, lease := c.healthOf(of)
	if lease != nil {
		holder, _, _ := strings.Cut(deref(lease.Spec.HolderIdentity), "_")
		proof := Evidence{Ref{Lease, lease.Namespace, lease.Name}, "spec.holderIdentity", quoted(holder), ""}
		var found *workload
		for ref, w := range c.index.workloads {
			isOne := func(pod *corev1.Pod) bool { return pod.Name == holder }
			named := strings.HasPrefix(holder, ref.Name+"-") && hasContainer(w.spec, of.sidecar)
			if ref.Namespace == lease.Namespace && (named || slices.ContainsFunc(c.index.podsOf[ref], isOne)) &&
				(found == nil || len(ref.Name) > len(found.ref.Name)) {
				found = w
			}
		}
		if found != nil {
			return runner{found, c.index.podsOf[found.ref], proof}
		}
	}
	if w := c.best(of.driver, func(w *workload) bool { return hasContainer(w.spec, of.sidecar) }); w != nil {
		return runner{w, c.index.podsOf[w.ref], Evidence{w.ref, "spec.template.spec.containers", of.sidecar, ""}}
	}
	var pods []*corev1.Pod
	for _, pod := range c.Pods {
		if of.driver == "" && hasContainer(&pod.Spec, of.sidecar) {
			pods = append(pods, pod)
		}
	}
	return runner{pods: pods}
}

// best returns the workload that belongs to the driver, of those that are asked for. One without
// any part of the driver's name counts if it is the only one, and belongs to no other driver.
func (c *Cluster) best(driver string, is func(*workload) bool) (found *workload) {
	most, same := -1, 0
	for _, w := range c.index.workloads {
		if !is(w) {
			continue
		}
		switch score := w.score(driver); {
		case score > most:
			found, most, same = w, score, 1
		case score == most:
			same++
		}
	}
	if found == nil || same > 1 {
		return nil
	}
	if most == 0 && driver != "" {
		for _, other := range c.CSIDrivers {
			if other.Name != driver && found.score(other.Name) > 0 {
				return nil
			}
		}
		if c.driverOf(driver) == nil && !c.lacks(CSIDriver) {
			return nil
		}
	}
	return found
}

// common are parts of names of drivers that do not tell them apart.
var common = []string{
	"", "csi", "com", "org", "io", "net", "dev", "k8s", "storage", "driver", "drivers", "example", "plugin",
	"controller",
}

func parts(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
}

// score is how many parts of the driver's name the workload has in its names, images and host
// paths.
func (w *workload) score(driver string) (score int) {
	texts := []string{w.ref.Name, w.ref.Namespace}
	for _, value := range w.labels {
		texts = append(texts, value)
	}
	for _, container := range w.spec.Containers {
		texts = append(texts, container.Name, container.Image)
		texts = append(texts, container.Args...)
	}
	for i := range w.spec.Volumes {
		if path := w.spec.Volumes[i].HostPath; path != nil {
			texts = append(texts, path.Path)
			if strings.Contains(path.Path+"/", "/"+driver+"/") {
				score += 10
			}
		}
	}
	have := parts(strings.Join(texts, " "))
	for _, part := range parts(driver) {
		isIn := func(word string) bool {
			return word == part || len(part) > 2 && (strings.HasPrefix(word, part) || strings.HasSuffix(word, part))
		}
		if !slices.Contains(common, part) && slices.ContainsFunc(have, isIn) {
			score++
		}
	}
	return score
}

// nearest returns the installed driver with the name that is most like a name; empty if none is.
func (c *Cluster) nearest(driver string) (found string) {
	least := len(driver)/5 + 2
	for _, other := range c.CSIDrivers {
		if d := distance(driver, other.Name); d < least {
			found, least = other.Name, d
		}
	}
	return found
}

// distance returns the number of characters to insert, remove or replace to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := diagonal
			if a[i] != b[j] {
				next = min(diagonal, row[j], row[j+1]) + 1
			}
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
