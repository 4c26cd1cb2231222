package ui

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/systeminfo"
	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// The size of the cluster of the benchmark, and what the pages may take.
const (
	volumes    = 10_000
	nodes      = 200
	stuck      = 200
	mostBoard  = time.Second
	mostLife   = 300 * time.Millisecond
	mostServer = 300 << 20
	mostPage   = 200 << 20
)

// BenchmarkTenThousandVolumes serves the pages of a cluster with so many claims, volumes, pods and
// attachments, of which some are stuck and some change all the time, and asks for them.
func BenchmarkTenThousandVolumes(b *testing.B) {
	root, err := stage.Root()
	if err != nil {
		b.Fatal(err)
	}
	api := newAPI()
	server := httptest.NewServer(api)
	defer server.Close()
	defer api.stop()
	began := time.Now()
	read, write, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer read.Close()
	program, err := stage.Launch(stage.Command{
		Path: filepath.Join(root, "bin", "purser"), Args: []string{"ui", "--no-open", "--server", server.URL},
		Output: write, Env: []string{"KUBECONFIG=" + os.DevNull},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer program.Kill()
	line := make([]byte, 1<<10)
	n, err := read.Read(line)
	if err != nil {
		b.Fatal(err)
	}
	address := strings.TrimSpace(string(line[:n]))
	b.ReportMetric(time.Since(began).Seconds(), "s-to-start")
	jar, _ := cookiejar.New(nil)
	client := &http.Client{Jar: jar}
	ask := func(address string) time.Duration { return timeOf(b, client, address) }
	ask(address)
	board, life, other := time.Duration(0), time.Duration(0), time.Duration(0)
	for i := 0; b.Loop(); i++ {
		api.change(i) // the state is another one for each page
		time.Sleep(time.Second)
		board = max(board, ask(origin(address)+"board"))
		life = max(life, ask(origin(address)+"life?kind=pvc&namespace=shop&name=c"+strconv.Itoa(stuck+i)))
		for _, page := range []string{"map", "numbers", "map?q=handle-777"} {
			other = max(other, ask(origin(address)+page))
		}
	}
	b.ReportMetric(board.Seconds()*1000, "ms-board")
	b.ReportMetric(life.Seconds()*1000, "ms-life")
	b.ReportMetric(other.Seconds()*1000, "ms-other")
	memory := peakOf(b, program.Pid())
	b.ReportMetric(float64(memory)/(1<<20), "MiB-server")
	page := memoryOfPage(b, origin(address), jar)
	b.ReportMetric(float64(page)/(1<<20), "MiB-page")
	if board > mostBoard || life > mostLife || memory > mostServer || page > mostPage {
		b.Errorf("board %s, life %s, server %d MiB, page %d MiB", board, life, memory>>20, page>>20)
	}
}

// timeOf returns how long a page takes.
func timeOf(b *testing.B, client *http.Client, address string) time.Duration {
	b.Helper()
	began := time.Now()
	answer, err := client.Get(address)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		b.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		b.Fatalf("%s: %s: %s", address, answer.Status, text)
	}
	return time.Since(began)
}

// peakOf returns the most memory that a process had, in bytes.
func peakOf(b *testing.B, pid int) int64 {
	b.Helper()
	return kilobytes(b, fmt.Sprintf("/proc/%d/status", pid), `VmHWM:\s+(\d+) kB`)
}

func kilobytes(b *testing.B, path, pattern string) int64 {
	b.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	match := regexp.MustCompile(pattern).FindSubmatch(text)
	if match == nil {
		b.Fatalf("%s: %s", path, text)
	}
	n, err := strconv.ParseInt(string(match[1]), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n << 10
}

// memoryOfPage returns the private memory of the browser's process that has the board open.
func memoryOfPage(b *testing.B, address string, jar http.CookieJar) (most int64) {
	b.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(b)), chromedp.NoSandbox)
	ctx, stop := chromedp.NewExecAllocator(b.Context(), options...)
	defer stop()
	ctx, stop = chromedp.NewContext(ctx)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		b.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		b.Fatal(err)
	}
	for _, c := range jar.Cookies(r.URL) {
		if _, err := chromedp.Call(ctx, network.SetCookie, network.SetCookieParams{Name: c.Name, Value: c.Value, URL: address}); err != nil {
			b.Fatal(err)
		}
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(address+"board"), chromedp.WaitReady(chromedp.CSS("details.cause"))); err != nil {
		b.Fatal(err)
	}
	processes, err := chromedp.CallBrowser(ctx, systeminfo.GetProcessInfo, cdp.Empty{})
	if err != nil {
		b.Fatal(err)
	}
	for _, p := range processes.ProcessInfo {
		if p.Type == "renderer" {
			most = max(most, kilobytes(b, fmt.Sprintf("/proc/%d/smaps_rollup", p.ID), `Private_Dirty:\s+(\d+) kB`))
		}
	}
	return most
}

// api is an API server in memory, with lists and with watches that deliver changes.
type api struct {
	lists   map[string][]json.RawMessage
	changes chan string
	ended   chan struct{}
}

func newAPI() *api {
	a := &api{lists: map[string][]json.RawMessage{}, changes: make(chan string, 1000), ended: make(chan struct{})}
	var claims []corev1.PersistentVolumeClaim
	var pvs []corev1.PersistentVolume
	var pods []corev1.Pod
	var attachments []storagev1.VolumeAttachment
	for i := range volumes {
		claim, pv := claimOf(i, 1), volumeOf(i)
		claims = append(claims, claim)
		pods = append(pods, podOf(i))
		if i < stuck {
			continue
		}
		pvs = append(pvs, pv)
		attachments = append(attachments, storagev1.VolumeAttachment{
			ObjectMeta: object(names.AttachmentName(fmt.Sprint("handle-", i), "d.example.com", pods[i].Spec.NodeName), "", 1),
			Spec: storagev1.VolumeAttachmentSpec{
				Attacher: "d.example.com", NodeName: pods[i].Spec.NodeName,
				Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pvs[len(pvs)-1].Name},
			},
			Status: storagev1.VolumeAttachmentStatus{Attached: true},
		})
	}
	a.lists["persistentvolumeclaims"], a.lists["persistentvolumes"] = encoded(claims), encoded(pvs)
	a.lists["pods"], a.lists["volumeattachments"] = encoded(pods), encoded(attachments)
	var all []corev1.Node
	for i := range nodes {
		node := corev1.Node{ObjectMeta: object(fmt.Sprint("n", i), "", 1)}
		node.Labels = map[string]string{corev1.LabelTopologyZone: fmt.Sprint("zone-", i%3)}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		all = append(all, node)
	}
	a.lists["nodes"] = encoded(all)
	class := storagev1.StorageClass{ObjectMeta: object("fast", "", 1), Provisioner: "d.example.com"}
	a.lists["storageclasses"] = encoded([]storagev1.StorageClass{class})
	a.lists["csidrivers"] = encoded([]storagev1.CSIDriver{{ObjectMeta: object("d.example.com", "", 1)}})
	return a
}

// encoded returns objects as JSON.
func encoded[T any](objects []T) (all []json.RawMessage) {
	for _, o := range objects {
		text, err := json.Marshal(o)
		if err != nil {
			panic(err) // it is an API object
		}
		all = append(all, text)
	}
	return all
}

// page returns a page of a list, and where the next one begins; empty for the end. As an API server does, it
// returns the whole list if any version will do.
func page(all []json.RawMessage, query url.Values) (items []json.RawMessage, next string) {
	limit, _ := strconv.Atoi(query.Get("limit"))
	from, _ := strconv.Atoi(query.Get("continue"))
	if limit == 0 || query.Get("resourceVersion") == "0" {
		return all, ""
	}
	to := min(len(all), from+limit)
	if to < len(all) {
		next = strconv.Itoa(to)
	}
	return all[from:to], next
}

func object(name, namespace string, version int) metav1.ObjectMeta {
	at := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	return metav1.ObjectMeta{
		Name: name, Namespace: namespace, UID: types.UID("uid-" + name), ResourceVersion: strconv.Itoa(version), CreationTimestamp: at,
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{".":{},"f:a":{},"f:b":{}},"f:labels":{".":{},"f:app":{}}},` +
				`"f:spec":{"f:accessModes":{},"f:resources":{"f:requests":{".":{},"f:storage":{}}},"f:volumeMode":{},"f:volumeName":{}},"f:status":{"f:phase":{}}}`),
		}},
	}
}

func claimOf(i, version int) corev1.PersistentVolumeClaim {
	class, name := "fast", fmt.Sprint("c", i)
	claim := corev1.PersistentVolumeClaim{ObjectMeta: object(name, "shop", version)}
	claim.Labels = map[string]string{"app": fmt.Sprint("app-", i%50)}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claim.Status.Phase = corev1.ClaimBound
	if i < stuck {
		class, claim.Status.Phase = fmt.Sprint("absent-", i%20), corev1.ClaimPending
	} else {
		claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes", "a": strings.Repeat("a", 100)}
		claim.Spec.VolumeName, claim.Status.Capacity = "pv-"+name, claim.Spec.Resources.Requests
	}
	claim.Spec.StorageClassName = &class
	return claim
}

func volumeOf(i int) corev1.PersistentVolume {
	name := fmt.Sprint("c", i)
	pv := corev1.PersistentVolume{ObjectMeta: object("pv-"+name, "", 1)}
	pv.Spec.StorageClassName = "fast"
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "d.example.com", VolumeHandle: fmt.Sprint("handle-", i)}
	pv.Status.Phase = corev1.VolumeBound
	return pv
}

func podOf(i int) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: object(fmt.Sprint("p", i), "shop", 1)}
	container := corev1.Container{Name: "c", Image: "registry.example.com/app:1", Command: []string{"run"}}
	for e := range 20 {
		container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprint("VARIABLE_", e), Value: strings.Repeat("v", 30)})
	}
	pod.Spec.Containers = []corev1.Container{container}
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("c", i)},
	}}}
	if i < stuck {
		pod.Status.Phase = corev1.PodPending
		return pod
	}
	pod.Spec.NodeName = fmt.Sprint("n", i%nodes)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: pod.CreationTimestamp},
		{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue, LastTransitionTime: pod.CreationTimestamp},
	}
	return pod
}

// change writes a claim.
func (a *api) change(i int) {
	claim := claimOf(stuck+i%1000, 10+i)
	claim.Annotations["change"] = strconv.Itoa(i)
	claim.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
	text, err := json.Marshal(map[string]any{"type": "MODIFIED", "object": claim})
	if err != nil {
		panic(err) // it is an API object
	}
	a.changes <- string(text)
}

func (a *api) stop() { close(a.ended) }

// served are the kinds of this API server, by their resources.
var served = map[string]string{
	"persistentvolumeclaims": "PersistentVolumeClaim", "persistentvolumes": "PersistentVolume", "pods": "Pod",
	"volumeattachments": "VolumeAttachment", "nodes": "Node", "storageclasses": "StorageClass", "csidrivers": "CSIDriver",
	"events": "Event", "leases": "Lease", "namespaces": "Namespace", "csinodes": "CSINode",
}

// groups are the resources of each version, and which of them are in namespaces.
var (
	groups = map[string][]string{
		"v1":                     {"persistentvolumeclaims", "persistentvolumes", "pods", "nodes", "events", "namespaces"},
		"storage.k8s.io/v1":      {"storageclasses", "csidrivers", "csinodes", "volumeattachments"},
		"coordination.k8s.io/v1": {"leases"},
	}
	namespaced = map[string]bool{"persistentvolumeclaims": true, "pods": true, "events": true, "leases": true}
)

// discovery answers what the API server serves; nil for other paths.
func discovery(path []string) any {
	switch text := strings.Join(path, "/"); text {
	case "api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case "apis":
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for version := range groups {
			if group, _, isGroup := strings.Cut(version, "/"); isGroup {
				of := metav1.GroupVersionForDiscovery{GroupVersion: version, Version: "v1"}
				list.Groups = append(list.Groups, metav1.APIGroup{
					Name: group, Versions: []metav1.GroupVersionForDiscovery{of}, PreferredVersion: of,
				})
			}
		}
		return list
	default:
		version := strings.Join(path[1:], "/")
		resources, is := groups[version]
		if !is {
			return nil
		}
		list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version}
		for _, name := range resources {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: name, Kind: served[name], Namespaced: namespaced[name], Verbs: metav1.Verbs{"list", "watch"},
			})
		}
		return list
	}
}

// ServeHTTP answers lists and watches of the newest version of each kind.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	kind := path[len(path)-1]
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") != "" {
		a.watch(w, r, kind)
		return
	}
	if found := discovery(path); found != nil {
		_ = json.NewEncoder(w).Encode(found)
		return
	}
	name, isServed := served[kind]
	if !isServed {
		http.NotFound(w, r)
		return
	}
	items, next := page(a.lists[kind], r.URL.Query())
	if items == nil {
		items = []json.RawMessage{}
	}
	group := strings.Join(path[1:len(path)-1], "/")
	list := map[string]any{
		"kind": name + "List", "apiVersion": group, "items": items,
		"metadata": map[string]any{"resourceVersion": "5", "continue": next},
	}
	_ = json.NewEncoder(w).Encode(list)
}

func (a *api) watch(w http.ResponseWriter, r *http.Request, kind string) {
	stream := http.NewResponseController(w)
	_ = stream.Flush()
	changes := a.changes
	if kind != "persistentvolumeclaims" {
		changes = nil
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case <-a.ended:
			return
		case text := <-changes:
			_, _ = fmt.Fprintln(w, text)
			_ = stream.Flush()
		}
	}
}
