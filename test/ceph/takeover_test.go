package ceph

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/test/e2e/stage"
	"github.com/purser-csi/purser/test/rolestest"
)

// Purser's provisioner takes the place of upstream's, and upstream's that of Purser's, each time while
// CreateVolume is in flight. Each deletes what the other one created, and nothing leaks. The volume
// controllers are those of kube-controller-manager.
func TestTakeOver(t *testing.T) {
	r := newRig(t)
	upstream := filepath.Join(r.bin, "upstream-csi-provisioner")
	if _, err := os.Stat(upstream); err != nil {
		t.Skip("upstream's provisioner is not built: run tools/build.sh bin upstream-csi-provisioner")
	}
	server := rolestest.StartServer(t, cluster.Config{Components: cluster.Components{cluster.ControllerManager}})
	api, err := client.New(server.RESTConfig(), client.Options{Scheme: scheme.Scheme})
	r.must(err)
	p := play{rig: r, api: api, driver: r.startDriver(rbd)}
	p.classes()
	provisioners := [][]string{{upstream, "--immediate-topology=false"}, {filepath.Join(r.bin, "purser"), "csi-provisioner"}}

	running := r.provision(provisioners[0], server.Kubeconfig(), p.driver)
	first := p.claim("first", small, nil)
	p.awaitBound(small, first)
	for turn, next := range [][]string{provisioners[1], provisioners[0], provisioners[1]} {
		amid, second := p.amid(func() []*corev1.PersistentVolumeClaim {
			return []*corev1.PersistentVolumeClaim{
				p.claim(string(rune('a'+turn))+"-one", small, nil), p.claim(string(rune('a'+turn))+"-two", small, nil),
			}
		}, running.Kill)
		running = r.provision(next, server.Kubeconfig(), p.driver)
		p.awaitBound(small, amid, second)
		p.wantNoLeak(3)
		p.remove(first, amid)
		first = second
		p.wantNoLeak(1)
	}
	p.remove(first)
	p.wantNothing()
}

// provision starts a provisioner until the test ends.
func (r *rig) provision(command []string, kubeconfig string, d *driver) *stage.Program {
	r.Helper()
	output, err := os.OpenFile(filepath.Join(r.private, "provisioner.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	r.must(err)
	defer output.Close() // the child has its own
	program, err := stage.Launch(stage.Command{Path: command[0], Output: output, Args: append(command[1:len(command):len(command)],
		"--csi-address=unix://"+d.socket, "--kubeconfig="+kubeconfig, "--timeout=30s", "--retry-interval-start=500ms", "--v=4",
		"--leader-election", "--leader-election-namespace=default", "--leader-election-lease-duration=9s",
		"--leader-election-renew-deadline=8s", "--leader-election-retry-period=500ms",
	)})
	r.must(err)
	r.Cleanup(program.Kill)
	return program
}
