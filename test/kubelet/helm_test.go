package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/containers"
)

// The chart in deploy/ is installed by helm into a cluster with upstream's volume controllers, and `helm test`
// passes: before there are snapshots, and with them.
func TestHelmTest(t *testing.T) {
	if _, err := os.Stat(filepath.Join(root, "bin", "helm")); err != nil {
		t.Skipf("helm is not built; run tools/build.sh bin helm: %v", err)
	}
	r := startRig(&rig{t: t, volumes: true})
	r.importShell()
	values := filepath.Join(r.dir, "values.yaml")
	images := fmt.Sprintf("image: {tag: %s, pullPolicy: Never, onNodes: true}\n", tag)
	must(t, os.WriteFile(values, []byte(images+r.extraValues()), 0o600))
	const in = " purser deploy/chart --namespace " + process.SystemNamespace
	r.call("helm install" + in + " --create-namespace --set driver.enabled=true --values " + values)
	r.awaitRollout()
	tested := []string{r.helmTest()}
	r.call("helm upgrade" + in + " --reuse-values --set " +
		"driver.snapshotter=true,snapshotController.enabled=true,snapshotController.distributed=true")
	r.awaitRollout()
	tested = append(tested, r.helmTest())
	r.call("helm uninstall purser --namespace " + process.SystemNamespace)
	r.awaitNoPods()
	r.driverIsGone()
	checkTests(t, tested)
}

// importShell imports the image of the pods of `purser check`.
func (r *rig) importShell() {
	r.t.Helper()
	shell, err := containers.ShellImage()
	must(r.t, err)
	must(r.t, r.runtime.Import(r.t.Context(), shell))
}

func (r *rig) helmTest() string {
	r.t.Helper()
	return r.call("helm test purser --logs --namespace " + process.SystemNamespace)
}
