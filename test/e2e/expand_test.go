package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/sys/mountinfo"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	mounting "github.com/purser-csi/purser/internal/node/rules"
)

// ask edits the size of a claim as a user does.
func (b testNamespace) ask(t *testing.T, claim *corev1.PersistentVolumeClaim, size string) {
	t.Helper()
	before := claim.DeepCopy()
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	must(t, b.Client.Patch(t.Context(), claim, client.MergeFrom(before)))
}

// awaitClaim waits until a claim fits.
func (b testNamespace) awaitClaim(t *testing.T, claim *corev1.PersistentVolumeClaim, what string, fits func() bool) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		if err := b.Client.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if !fits() {
			return fmt.Errorf("%s: not yet; status %+v; its events:\n%s", what, claim.Status, b.story(ctx, claim))
		}
		return nil
	})
}

// A claim is expanded to 2Gi while a pod uses it, with the filesystem in the pod. 100Ti is
// infeasible, with the driver's message, and 3Gi works after that (KEP-1790). Without
// CAP_SYS_RESOURCE a mounted ext4 cannot be expanded: then it is expanded for the next pod.
func TestExpansion(t *testing.T) {
	for filesystem, isOnline := range map[string]bool{"ext4": hasResourceCapability(t), "xfs": true} {
		t.Run(filesystem, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath("mkfs." + filesystem); err != nil {
				t.Skip(err)
			}
			b := newTestNamespace(t, shared(t))
			class := b.class(t, func(c *storagev1.StorageClass) {
				c.AllowVolumeExpansion, c.Parameters = new(true), map[string]string{"csi.storage.k8s.io/fstype": filesystem}
			})
			b.grows(t, b.giga(t, class.Name), isOnline)
		})
	}
}

// grows expands a claim of 1Gi.
func (b testNamespace) grows(t *testing.T, claim *corev1.PersistentVolumeClaim, isOnline bool) {
	t.Helper()
	pod, mount := b.usingPod(t, claim, "user")
	before := mountedBytes(t, mount)
	for _, size := range []string{"2Gi", "100Ti", "3Gi"} {
		b.ask(t, claim, size)
		if size == "100Ti" {
			b.awaitClaim(t, claim, "100Ti are infeasible", func() bool { return hasError(claim, "OutOfRange") })
			continue
		}
		want := resource.MustParse(size)
		if !isOnline {
			b.awaitClaim(t, claim, "the driver has expanded the volume to "+size, func() bool {
				allocated := claim.Status.AllocatedResources[corev1.ResourceStorage]
				return allocated.Cmp(want) == 0 && claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] != ""
			})
			b.delete(t, pod)
			b.awaitGone(t, pod)
			pod, mount = b.usingPod(t, claim, "user-of-"+strings.ToLower(size))
		}
		b.awaitClaim(t, claim, "the claim has "+size, func() bool {
			return claim.Status.Capacity.Storage().Cmp(want) == 0 && len(claim.Status.AllocatedResourceStatuses) == 0
		})
		now := mountedBytes(t, mount)
		if grown := now - before; grown < 1<<30/10*9 {
			t.Errorf("the filesystem at %s had %d bytes and has %d with %s", mount, before, now, size)
		}
		before = now
	}
	if largest := largestFile(t, b.folder(claim)); largest != 3<<30 {
		t.Errorf("the image of the volume has %d bytes", largest)
	}
}

// hasResourceCapability reports whether this process has CAP_SYS_RESOURCE.
func hasResourceCapability(t *testing.T) bool {
	t.Helper()
	const number = 24
	text, err := os.ReadFile("/proc/self/status")
	must(t, err)
	_, after, found := strings.Cut(string(text), "CapEff:")
	if !found {
		t.Fatal("/proc/self/status has no CapEff")
	}
	effective, err := strconv.ParseUint(strings.Fields(after)[0], 16, 64)
	must(t, err)
	return effective&(1<<number) != 0
}

// RZ-M7, RZ-M10: a claim changes to a class without discard and back while a pod uses it. The driver
// mounts the filesystem anew with other options each time.
func TestAttributesClassChanges(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, shared(t))
	claim := b.giga(t, "")
	_, mount := b.usingPod(t, claim, "user")
	for name, discard := range map[string]string{"trims": "true", "keeps": "false"} {
		must(t, b.Client.Create(t.Context(), &storagev1.VolumeAttributesClass{
			ObjectMeta: metav1.ObjectMeta{Name: b.name + "-" + name}, DriverName: builtIn,
			Parameters: map[string]string{"discard": discard},
		}))
	}
	for _, name := range []string{"trims", "keeps", "trims"} {
		class := b.name + "-" + name
		before := claim.DeepCopy()
		claim.Spec.VolumeAttributesClassName = &class
		must(t, b.Client.Patch(t.Context(), claim, client.MergeFrom(before)))
		b.awaitClaim(t, claim, "the claim has the class "+class, func() bool {
			return ptr.Deref(claim.Status.CurrentVolumeAttributesClassName, "") == class && claim.Status.ModifyVolumeStatus == nil
		})
		pv := &corev1.PersistentVolume{}
		must(t, b.Client.Get(t.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, pv))
		if got := ptr.Deref(pv.Spec.VolumeAttributesClassName, ""); got != class {
			t.Errorf("the PersistentVolume has the class %q, want %q", got, class)
		}
		if got := mountOptions(t, mount); strings.Contains(got, "discard") != (name == "trims") {
			t.Errorf("with the class %s, %s is mounted with %s", name, mount, got)
		}
	}
}

// giga creates a claim of 1Gi of a class; "" means the default one.
func (b testNamespace) giga(t *testing.T, class string) *corev1.PersistentVolumeClaim {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: the driver has directories, which neither grow nor change")
	}
	claim := b.newClaim("used", class)
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	must(t, b.Client.Create(t.Context(), claim))
	return claim
}

// podOf creates a pod that uses a claim.
func (b testNamespace) podOf(t *testing.T, name, claim string, edits ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "c", Image: "none", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}},
			}},
			TerminationGracePeriodSeconds: new(int64(0)),
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}}},
		},
	}
	for _, edit := range edits {
		edit(pod)
	}
	// A new namespace has no default service account at first.
	eventually(t, func(ctx context.Context) error { return b.Client.Create(ctx, pod) })
	return pod
}

// usingPod returns a pod that uses the claim, and where its volume is mounted.
func (b testNamespace) usingPod(
	t *testing.T, claim *corev1.PersistentVolumeClaim, name string, edits ...func(*corev1.Pod),
) (pod *corev1.Pod, mount string) {
	t.Helper()
	pod = b.podOf(t, name, claim.Name, edits...)
	pv := b.awaitBound(t, claim)
	eventually(t, func(ctx context.Context) error {
		if err := b.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if !slices.ContainsFunc(pod.Status.Conditions, isPublished) {
			return fmt.Errorf("the volume is not published; the pod's conditions: %v; its events:\n%s", pod.Status.Conditions, b.story(ctx, pod))
		}
		return nil
	})
	layout := mounting.Layout{Root: b.DataDir}
	return pod, layout.Target(mounting.ID{Pod: pod.UID, Spec: pv.Name})
}

func isPublished(c corev1.PodCondition) bool {
	return c.Type == names.ConditionVolumesPublished && c.Status == corev1.ConditionTrue
}

// mountedBytes returns the size of the filesystem that is mounted at a path.
func mountedBytes(t *testing.T, path string) int64 {
	t.Helper()
	mustBeMount(t, path)
	var fs syscall.Statfs_t
	must(t, syscall.Statfs(path, &fs))
	return int64(fs.Blocks) * fs.Bsize //nolint:gosec // sizes of a test
}

func hasError(claim *corev1.PersistentVolumeClaim, words string) bool {
	return slices.ContainsFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimControllerResizeError && strings.Contains(c.Message, words)
	})
}

// mountOptions returns the options of the filesystem that is mounted at a path, such as rw,discard.
func mountOptions(t *testing.T, path string) string {
	t.Helper()
	mounts, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(path))
	must(t, err)
	if len(mounts) != 1 {
		t.Fatalf("%d filesystems are mounted at %s", len(mounts), path)
	}
	return mounts[0].VFSOptions
}

// largestFile returns the bytes of the largest file below a folder.
func largestFile(t *testing.T, dir string) (largest int64) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(_ string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			largest = max(largest, info.Size())
		}
		return err
	}))
	return largest
}
