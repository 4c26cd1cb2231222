package monitoring

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// scene is an `up` beside a driver that fails on demand, with its metrics recorded.
type scene struct {
	*testing.T

	began  time.Time
	dir    string
	api    string // of kubectl proxy
	record *recorder
	up     *exec.Cmd
}

// program is the path of one in bin. Without it the test is skipped.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, "bin", name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Skipf("run 'make cluster-tools build' first: %v", err)
	}
	return path
}

// start starts a program, which ends with the test.
func (s *scene) start(output io.Writer, path string, args ...string) *exec.Cmd {
	s.Helper()
	command := exec.CommandContext(context.WithoutCancel(s.Context()), path, args...)
	command.Env = append(os.Environ(),
		"KUBECONFIG="+filepath.Join(s.dir, "data", "kubeconfig"), "NAMESPACE=purser-system",
		"KUBEBUILDER_ASSETS="+filepath.Dir(path))
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	command.Stdout, command.Stderr = output, output
	command.WaitDelay = 10 * time.Second // a child may still hold the output
	if err := command.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { s.stop(command) })
	return command
}

// role starts a role of purser whose log is in a file and whose metrics are recorded.
func (s *scene) role(name string, args ...string) *exec.Cmd {
	s.Helper()
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = log.Close() })
	address := s.freeAddress()
	command := s.start(log, program(s.T, "purser"), append(args, "--http-endpoint="+address)...)
	s.record.set(name, address)
	return command
}

// stop ends a program in good order; one that does not end within a minute is killed.
func (s *scene) stop(command *exec.Cmd) {
	if command.ProcessState != nil {
		return
	}
	_ = command.Process.Signal(os.Interrupt)
	late := time.AfterFunc(time.Minute, func() {
		s.Logf("%v does not end", command.Args[:2])
		_ = command.Process.Kill()
	})
	defer late.Stop()
	_ = command.Wait() // one that is stopped while it works may say so by its code
}

// freeAddress is one that nothing listens at.
func (s *scene) freeAddress() string {
	s.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// eventually waits until holds returns nil.
func (s *scene) eventually(what string, within time.Duration, holds func() error) {
	s.Helper()
	if err := s.poll(within, holds); err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// poll calls holds ten times a second until it returns nil, and returns its last error at the deadline.
func (s *scene) poll(within time.Duration, holds func() error) error {
	ctx, cancel := context.WithTimeout(s.Context(), within)
	defer cancel()
	every := time.NewTicker(100 * time.Millisecond)
	defer every.Stop()
	for {
		err := holds()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-every.C:
		}
	}
}

// newScene starts `up` with the driver, and a proxy to its API server.
func newScene(t *testing.T, driver *faultyDriver, record *recorder) *scene {
	t.Helper()
	purser, kubectl := program(t, "purser"), program(t, "kubectl")
	program(t, "kube-apiserver")
	dir, err := os.MkdirTemp("", "seen") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &scene{T: t, began: time.Now(), dir: dir, record: record}
	driver.serve(t, filepath.Join(dir, "a.sock"))
	var said bytes.Buffer
	s.up = s.start(&said, purser, "up", "--data-dir", filepath.Join(dir, "data"), "--http-endpoint", s.freeAddress(),
		"--csi-address", "unix://"+filepath.Join(dir, "a.sock"))
	s.eventually("purser up", 3*time.Minute, func() error { return s.readTargets("node") })
	s.proxy(kubectl)
	return s
}

// readTargets has the recorder read the roles of `up`; an error until a role is there.
func (s *scene) readTargets(last string) error {
	text, err := os.ReadFile(filepath.Join(s.dir, "data", "metrics.json"))
	if err != nil {
		return err
	}
	var all []struct {
		Targets []string
		Labels  map[string]string
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	found := false
	for _, one := range all {
		s.record.set(one.Labels["role"], one.Targets[0])
		found = found || one.Labels["role"] == last
	}
	if !found {
		return fmt.Errorf("%s does not serve yet", last)
	}
	return nil
}

// proxy starts `kubectl proxy` and reads where it listens.
func (s *scene) proxy(kubectl string) {
	s.Helper()
	reader, writer := io.Pipe()
	s.start(writer, kubectl, "proxy", "--port=0")
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		s.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	s.api = "http://" + strings.TrimSpace(line[strings.LastIndex(line, " ")+1:])
}

// call sends a request to the API server and returns what it answers.
func (s *scene) call(method, path, kind, body string) ([]byte, error) {
	request, err := http.NewRequestWithContext(
		context.WithoutCancel(s.Context()), method, s.api+path, strings.NewReader(body),
	)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", kind)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %s: %.300s", method, path, response.Status, text)
	}
	return text, err
}

func (s *scene) must(_ []byte, err error) {
	s.Helper()
	if err != nil {
		s.Error(err)
	}
}

const (
	core     = "/api/v1"
	storage  = "/apis/storage.k8s.io/v1"
	leases   = "/apis/coordination.k8s.io/v1/namespaces/purser-system/leases"
	policies = "/apis/admissionregistration.k8s.io/v1"
	isYAML   = "application/yaml"
	isMerge  = "application/merge-patch+json"
)

// class creates a StorageClass whose volumes have a fault.
func (s *scene) class(of fault) {
	s.Helper()
	s.must(s.call(http.MethodPost, storage+"/storageclasses", isYAML,
		fmt.Sprintf(`{apiVersion: storage.k8s.io/v1, kind: StorageClass,
metadata: {name: %s}, provisioner: a.example, allowVolumeExpansion: true, parameters: {fault: %s}}`, of, of)))
}

func claimText(name, class string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %s}, spec: {storageClassName: %s,
accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`, name, class)
}

const claims = core + "/namespaces/default/persistentvolumeclaims"

func (s *scene) claim(name string, class fault) {
	s.Helper()
	s.must(s.call(http.MethodPost, claims, isYAML, claimText(name, string(class))))
}

// pod creates a pod that uses a claim of its own.
func (s *scene) pod(name string, class fault) {
	s.Helper()
	s.claim(name, class)
	s.must(s.call(http.MethodPost, core+"/namespaces/default/pods", isYAML,
		fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s},
spec: {containers: [{name: c, image: none, volumeMounts: [{name: v, mountPath: /v}]}],
tolerations: [{operator: Exists}], volumes: [{name: v, persistentVolumeClaim: {claimName: %s}}]}}`, name, name)))
}

// awaitBound waits for the volume of a claim.
func (s *scene) awaitBound(name string) {
	s.Helper()
	s.eventually("claim "+name, time.Minute, func() error {
		text, err := s.call(http.MethodGet, claims+"/"+name, isYAML, "")
		if err == nil && !bytes.Contains(text, []byte(`"phase":"Bound"`)) {
			err = errors.New("it is not bound")
		}
		return err
	})
}

// phases returns what kube-state-metrics serves about the phases of volumes.
func (s *scene) phases(context.Context) map[string]float64 {
	found := map[string]float64{}
	text, err := s.call(http.MethodGet, core+"/persistentvolumes?limit=50", isYAML, "")
	if err != nil {
		return found
	}
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct{ Phase string }
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return found
	}
	for _, pv := range list.Items {
		for _, phase := range []string{"Failed", "Bound"} {
			value := 0.0
			if pv.Status.Phase == phase {
				value = 1
			}
			found[series(
				"kube_persistentvolume_status_phase",
				map[string]string{"persistentvolume": pv.Metadata.Name, "phase": phase},
			)] = value
		}
	}
	return found
}
