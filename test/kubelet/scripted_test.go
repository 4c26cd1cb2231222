package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/purser-csi/purser/internal/cluster/kubelet"
)

const scriptedName = "scripted.example"

// scriptedDriver builds the scripted driver into an image, and returns the objects of its pod.
func (r *rig) scriptedDriver() []*unstructured.Unstructured {
	r.t.Helper()
	program := filepath.Join(r.dir, "scripteddriver")
	build := exec.CommandContext(r.t.Context(), "go", "build", "-o", program, "./scripteddriver")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		r.t.Fatalf("build the scripted driver: %v: %s", err, out)
	}
	content, err := os.ReadFile(program)
	must(r.t, err)
	const image = "purser.local/scripted:1"
	archive, err := kubelet.Image(image, content)
	must(r.t, errors.Join(err, os.Remove(program)))
	must(r.t, r.runtime.Import(r.t.Context(), archive))
	const ports = 2
	first := r.freePorts(ports)
	return r.filled("scripted-driver.yaml",
		"$SCRIPTED$", image, "$HEALTH$", strconv.Itoa(first), "$HTTP$", strconv.Itoa(first+1))
}

// useScripted provisions a volume of the scripted driver, whose first answer is lost, has it attached and
// mounted, and deletes it.
func (r *rig) useScripted() {
	r.t.Helper()
	claim := r.newClaim("scripted", "1Mi")
	claim.Spec.StorageClassName = new("scripted")
	must(r.t, r.Create(r.t.Context(), claim))
	pod := r.pod("scripted-user", claim, "write", "/v/hello", "wait")
	r.awaitRunning(pod)
	r.awaitFile(r.target(r.kubeletDir(), pod, claim))
	r.mustBeAttached(claim, nodeName)
	r.awaitEvent(claim, "ProvisioningFailed", "the answer is lost")
	r.scriptedHas("[first]")
	r.remove(pod)
	r.awaitDetached(claim)
	r.scriptedHas("[]")
	pv := r.volumeOf(claim)
	r.remove(claim)
	r.awaitGone(pv)
	r.scriptedHas("")
}

// scriptedHas fails unless the volumes of the scripted driver are published to these nodes.
func (r *rig) scriptedHas(want string) {
	r.t.Helper()
	socket := filepath.Join(r.kubeletDir(), "plugins", scriptedName, "csi.sock")
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(r.t, err)
	defer conn.Close()
	all, err := csi.NewControllerClient(conn).ListVolumes(r.t.Context(), &csi.ListVolumesRequest{})
	must(r.t, err)
	got := ""
	for _, entry := range all.GetEntries() {
		got += fmt.Sprint(entry.GetStatus().GetPublishedNodeIds())
	}
	if got != want {
		r.t.Errorf("the driver's volumes are published to %q, want %q", got, want)
	}
}

// awaitDetached waits until no VolumeAttachment names the claim's volume.
func (r *rig) awaitDetached(claim *corev1.PersistentVolumeClaim) {
	r.t.Helper()
	r.eventually(func(ctx context.Context) error {
		var list storagev1.VolumeAttachmentList
		if err := r.List(ctx, &list); err != nil {
			return err
		}
		for i := range list.Items {
			if pv := list.Items[i].Spec.Source.PersistentVolumeName; pv != nil && *pv == claim.Spec.VolumeName {
				return fmt.Errorf("%s is attached\n%s", *pv, r.story(ctx, nil))
			}
		}
		return nil
	})
}
