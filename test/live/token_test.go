package live

import (
	"path/filepath"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// The driver does not talk to the API server: its container, which is privileged on the nodes, does not
// mount the token of the provisioner beside it, unless --metrics-secure makes it ask who may read its
// metrics. The others do, with what a client expects there.
func TestDriverHasNoToken(t *testing.T) {
	pods := map[string]corev1.PodSpec{}
	for _, object := range manifest(t, filepath.Join("..", "..", "deploy", "driver.yaml")) {
		if set, ok := object.(*appsv1.DaemonSet); ok {
			pods["deploy/driver.yaml"] = set.Spec.Template.Spec
		}
	}
	for _, r := range renderedCharts(t) {
		for _, w := range r.workloads(t) {
			pods[r.name+" "+w.name] = w.pod
		}
	}
	drivers := 0
	for name, pod := range pods {
		files := tokenFiles(pod)
		for _, container := range pod.Containers {
			isDriver := container.Args[0] == "driver"
			if isDriver {
				drivers++
				if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
					t.Errorf("%s: automountServiceAccountToken is not false", name)
				}
			}
			if privileged := container.SecurityContext != nil && container.SecurityContext.Privileged != nil; privileged && !isDriver {
				t.Errorf("%s: %s is privileged", name, container.Name)
			}
			mounts := false
			for _, mount := range container.VolumeMounts {
				if files[mount.Name] == nil {
					continue
				}
				mounts = true
				if mount.MountPath != tokenPath || !mount.ReadOnly || !files[mount.Name]["token"] || !files[mount.Name]["ca.crt"] || !files[mount.Name]["namespace"] {
					t.Errorf("%s: %s mounts %v as %+v", name, container.Name, files[mount.Name], mount)
				}
			}
			automount := pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken
			talks := !isDriver || slices.Contains(container.Args, "--metrics-secure")
			if (mounts || automount) != talks {
				t.Errorf("%s: %s has a token: %t", name, container.Name, mounts || automount)
			}
		}
	}
	if drivers < 2 {
		t.Errorf("%d pods with a driver", drivers)
	}
}

// tokenFiles returns the files of each volume of the pod that has a token of its account.
func tokenFiles(pod corev1.PodSpec) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, volume := range pod.Volumes {
		if volume.Projected == nil {
			continue
		}
		files, hasToken := map[string]bool{}, false
		for _, source := range volume.Projected.Sources {
			switch {
			case source.ServiceAccountToken != nil:
				files[source.ServiceAccountToken.Path], hasToken = true, true
			case source.ConfigMap != nil && source.ConfigMap.Name == "kube-root-ca.crt":
				for _, item := range source.ConfigMap.Items {
					files[item.Path] = true
				}
			case source.DownwardAPI != nil:
				for _, item := range source.DownwardAPI.Items {
					files[item.Path] = true
				}
			}
		}
		if hasToken {
			all[volume.Name] = files
		}
	}
	return all
}
