package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/purser-csi/purser/internal/roles"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/rolestest"
)

// TestMain lets the test be the program: called by the name of a sidecar, it is that sidecar.
func TestMain(m *testing.M) {
	if role := filepath.Base(os.Args[0]); strings.HasPrefix(role, "csi-") || role == "snapshot-controller" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		err := roles.Execute(ctx, cli.Program{Name: os.Args[0], Args: os.Args[1:], Version: "test", Out: os.Stdout, Err: os.Stderr})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		stop()
		os.Exit(roles.ExitCode(err))
	}
	os.Exit(m.Run())
}

// chartRow is one sidecar of one chart.
type chartRow struct {
	Row, Chart, Role, Permissions, Args string
	Env, Warns                          []string
	Topology, Capacity                  bool
}

func (r chartRow) String() string { return r.Row + " " + r.Role + " of " + r.Chart }

// charts are the golden argument lists and permissions.
type charts struct {
	Permissions map[string]map[string]map[string]string // by set, role, group/resource
	Rows        []chartRow
}

func readCharts(t *testing.T) (c charts) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "charts.yaml"))
	if err == nil {
		err = yaml.UnmarshalStrict(text, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rules are the permissions of a row: those of its chart, or upstream's.
func (c charts) rules(t *testing.T, r chartRow) (rules []rbacv1.PolicyRule) {
	t.Helper()
	if r.Permissions != "" {
		set := c.Permissions[r.Permissions][r.Role]
		for _, resource := range slices.Sorted(maps.Keys(set)) {
			group, name, _ := strings.Cut(resource, "/")
			rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{name}, Verbs: strings.Fields(set[resource])})
		}
		return rules
	}
	shipped, err := process.ShippedPermissions(r.Role, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range shipped {
		if p.Resource == "volumeattributesclasses" && r.Role == "csi-provisioner" { // RB-10
			continue
		}
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{p.Group}, Resources: []string{p.Resource}, Verbs: []string{p.Verb}})
	}
	return rules
}

// chartRun is one sidecar at work, as a process of its own.
type chartRun struct {
	liveCluster
	row    chartRow
	driver *zonedDriver
	id     string // prefix of the names of its objects
	http   string // where it serves; empty for nowhere
	log    *lockedBuffer
	socket string
	dir    string

	repeats bool // calls may be repeated
}

// SM-30 to SM-68, SM-70, SM-73, SM-74, SM-79: each sidecar of each chart starts with the command
// line and the permissions of the chart, under the program's name and as user 1000, answers its
// probe and does its work.
func TestCharts(t *testing.T) {
	c := readCharts(t)
	p := newLiveCluster(t)
	p.snapshotKinds()
	p.ownedPod("provisioner")
	p.create(&storagev1.StorageClass{ObjectMeta: metav1Name("growing"), Provisioner: "grows.example", AllowVolumeExpansion: new(true)})
	p.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{"zone": "a"}}})
	for i, row := range c.Rows {
		t.Run(row.String(), func(t *testing.T) {
			p := p
			p.T = t
			r := &chartRun{liveCluster: p, row: row, id: fmt.Sprintf("chart-%d", i), log: &lockedBuffer{}}
			r.start()
			r.launch(r.account(c.rules(t, row)))
			r.work()
			r.probe()
			r.compareWarnings()
		})
	}
}

// start starts the driver and registers it.
func (r *chartRun) start() {
	r.Helper()
	room := map[string]int64{"a": 10 << 30}
	if !r.row.Topology {
		room = map[string]int64{"": 10 << 30}
	}
	r.driver = newZonedDriver(room)
	r.driver.name = r.id + ".example"
	r.driver.capabilities = append(r.driver.capabilities,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME, csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT)
	if r.row.Permissions != "nfs" { // which may not read attachments
		r.driver.capabilities = append(r.driver.capabilities, csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)
	}
	r.driver.expand = func(q *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
		return &csi.ControllerExpandVolumeResponse{CapacityBytes: q.GetCapacityRange().GetRequiredBytes()}, nil
	}
	r.driver.publish = func(*csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
		return &csi.ControllerPublishVolumeResponse{}, nil
	}
	r.driver.unpublish = func(*csi.ControllerUnpublishVolumeRequest) error { return nil }
	r.driver.snapshot = taken
	r.socket = strings.TrimPrefix(r.driver.serve(r.T), "unix://")
	r.dir = filepath.Dir(r.socket)
	r.register()
}

// register adds the driver to the one CSINode.
func (r *chartRun) register() {
	r.Helper()
	node := &storagev1.CSINode{ObjectMeta: metav1Name("node")}
	if err := r.user.Create(r.Context(), node); client.IgnoreAlreadyExists(err) != nil {
		r.Fatal(err)
	}
	if err := r.user.Get(r.Context(), client.ObjectKeyFromObject(node), node); err != nil {
		r.Fatal(err)
	}
	one := storagev1.CSINodeDriver{Name: r.driver.name, NodeID: "node"}
	if r.row.Topology {
		one.TopologyKeys = []string{"zone"}
	}
	before := node.DeepCopy()
	node.Spec.Drivers = append(node.Spec.Drivers, one)
	if err := r.user.Patch(r.Context(), node, client.MergeFrom(before)); err != nil {
		r.Fatal(err)
	}
}

// account creates a service account with the permissions, and returns a kubeconfig for it.
func (r *chartRun) account(rules []rbacv1.PolicyRule) (kubeconfig string) {
	r.Helper()
	r.create(
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: process.SystemNamespace, Name: r.id}},
		&rbacv1.ClusterRole{ObjectMeta: metav1Name(r.id), Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1Name(r.id), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: r.id},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: process.SystemNamespace, Name: r.id}},
		},
	)
	api := r.as(r.id)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: api.Host, CertificateAuthorityData: api.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: api.BearerToken}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "c"
	kubeconfig = filepath.Join(r.dir, "kubeconfig")
	text, err := clientcmd.Write(*config)
	if err == nil {
		err = os.WriteFile(kubeconfig, text, 0o644) //nolint:gosec // another user reads it, of a cluster that ends with the test
	}
	if err != nil {
		r.Fatal(err)
	}
	return kubeconfig
}

// launch starts this very program under the name of the role, until the test ends.
func (r *chartRun) launch(kubeconfig string) {
	r.Helper()
	if strings.Contains(r.row.Args, "HTTP") {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			r.Fatal(err)
		}
		r.http = listener.Addr().String()
		_ = listener.Close()
	}
	command := r.begin(r.ours(), kubeconfig)
	r.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt)
		if err := command.Wait(); err != nil {
			r.Errorf("ended: %v", err)
		}
		if r.Failed() {
			r.Log(r.log.String())
		}
	})
}

// ours is this very program under the name of the role.
func (r *chartRun) ours() (program string) {
	r.Helper()
	self, err := os.Executable()
	if err != nil {
		r.Fatal(err)
	}
	program = filepath.Join(r.dir, r.row.Role)
	if err := errors.Join(os.Link(self, program), os.Chmod(r.dir, 0o755), os.Chmod(r.socket, 0o777)); err != nil { //nolint:gosec // for user 1000
		r.Fatal(err)
	}
	return program
}

// begin starts a program with the command line of the row.
func (r *chartRun) begin(program, kubeconfig string) *exec.Cmd {
	r.Helper()
	fill := strings.NewReplacer("ADDRESS", "unix://"+r.socket, "PATH", r.socket, "HTTP", r.http, "=NS", "="+process.SystemNamespace, "=POD", "=provisioner")
	command := exec.CommandContext(context.WithoutCancel(r.Context()), program, strings.Fields(fill.Replace(r.row.Args))...)
	command.Stdout, command.Stderr = r.log, r.log
	command.Env = []string{"KUBECONFIG=" + kubeconfig, "GOCOVERDIR=" + r.dir}
	for _, e := range r.row.Env {
		command.Env = append(command.Env, fill.Replace(e))
	}
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 { // SM-74
		command.SysProcAttr.Credential = &syscall.Credential{Uid: 1000, Gid: 1000}
	}
	if err := command.Start(); err != nil {
		r.Fatal(err)
	}
	return command
}

// probe asks as the charts' probes and Prometheus do (SM-75).
func (r *chartRun) probe() {
	r.Helper()
	if r.http == "" {
		return
	}
	for _, path := range []string{"/metrics", "/healthz/leader-election"} {
		rolestest.Eventually(r.T, path, func() error { return ok(r.T, "http://"+r.http+path) })
	}
}

// compareWarnings checks that removed gates and flags are a warning (SM-90 to SM-92).
func (r *chartRun) compareWarnings() {
	r.Helper()
	for _, word := range r.row.Warns {
		if !strings.Contains(r.log.String(), word) {
			r.Errorf("no warning about %s", word)
		}
	}
}

// lockedBuffer is the log of a process.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
