package attach

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/test/e2e/stage"
	"github.com/purser-csi/purser/test/explain/properties"
	"github.com/purser-csi/purser/test/scripted"
)

const (
	namespace  = "default"
	controller = "persistentvolume-attach-detach-controller"
)

// command is a program of a side, in the folder of programs.
type command struct {
	name   string
	args   []string
	driver bool // takes --csi-address
}

// compareOften has an attacher compare attachments with what the driver lists (AT-L4).
const compareOften = "--reconcile-sync=2s"

// The sides: what Kubernetes and the external-attacher do, and what Purser does.
var (
	stock = []command{
		{name: "kube-controller-manager", args: []string{
			"--leader-elect=false", "--secure-port=0", "--controllers=" + controller, "--kube-api-qps=1000", "--kube-api-burst=2000",
		}},
		{name: "upstream-csi-attacher", args: []string{"--kube-api-qps=1000", "--kube-api-burst=2000", compareOften}, driver: true},
	}
	ours = []command{
		{name: "purser", args: []string{"controllers", "--controllers=" + controller}},
		{name: "purser", args: []string{"csi-attacher", compareOften}, driver: true},
	}
)

// side is one of the two with its API server and driver.
type side struct {
	name   string
	api    client.Client
	server properties.Server // where the advice of explain is tried
	driver *driver
}

// startSide starts the API server, the driver and the programs; they end with the test.
func startSide(t *testing.T, name string, programs []command) *side {
	t.Helper()
	bin, err := stage.Bin()
	if err != nil {
		t.Skip(err)
	}
	for _, p := range programs {
		if _, err := os.Stat(filepath.Join(bin, p.name)); err != nil {
			t.Skipf("run 'make build cluster-tools' and 'tools/build.sh bin upstream-csi-attacher': %v", err)
		}
	}
	binaries, err := cluster.FindBinaries(cluster.Components{}.Programs(), bin)
	if err != nil {
		t.Skip(err)
	}
	dir := scripted.SocketDir(t)
	c, err := cluster.Start(t.Context(), cluster.Config{Dir: filepath.Join(dir, name), Binaries: binaries})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = c.Stop(ctx)
	})
	config := rest.CopyConfig(c.RESTConfig())
	config.QPS = -1
	s := &side{name: name, server: properties.Server{
		Kubectl: filepath.Join(bin, "kubectl"), Kubeconfig: c.Kubeconfig(),
	}}
	if s.api, err = client.New(config, client.Options{Scheme: kube.Scheme()}); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "csi.sock")
	var stop func()
	if s.driver, stop, err = serve(t.Context(), socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	for _, o := range []client.Object{
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(true)}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}},
	} {
		if err := client.IgnoreAlreadyExists(s.api.Create(t.Context(), o)); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range programs {
		launch(t, filepath.Join(bin, p.name), filepath.Join(dir, fmt.Sprintf("%s-%d.log", name, i)), p, c.Kubeconfig(), socket)
	}
	return s
}

func launch(t *testing.T, path, log string, p command, kubeconfig, socket string) {
	t.Helper()
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() // the child has its own
	args := append(append([]string{}, p.args...), "--kubeconfig="+kubeconfig)
	if p.driver {
		args = append(args, "--csi-address="+socket)
	}
	program, err := stage.Launch(stage.Command{Path: path, Args: args, Output: out, Env: []string{"KUBECONFIG="}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(program.Kill)
}
