package ui

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/test/e2e/leftover"
	"github.com/purser-csi/purser/test/e2e/scrape"
	"github.com/purser-csi/purser/test/e2e/stage"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// cluster is a `purser up` of the test's own.
func cluster(t *testing.T, args ...string) *stage.Stage {
	t.Helper()
	bin, err := stage.Bin()
	if err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("", "ui-") // the kernel allows 107 bytes for the path of a socket in it
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s, err := stage.Start(t.Context(), stage.Config{Bin: bin, DataDir: dir, Args: args})
	must(t, err)
	t.Cleanup(func() {
		left, failed := leftover.Processes(dir)
		if err := errors.Join(s.Stop(), failed); err != nil {
			t.Errorf("%v, %v", err, left)
		}
	})
	return s
}

// program starts purser, and returns its output.
func program(t *testing.T, bin string, args ...string) (*stage.Program, *io.PipeReader) {
	t.Helper()
	read, write := io.Pipe()
	p, err := stage.Launch(stage.Command{Path: filepath.Join(bin, "purser"), Args: args, Output: write})
	must(t, err)
	t.Cleanup(func() {
		go func() { _, _ = io.Copy(io.Discard, read) }()
		_ = p.Stop()
		_ = write.Close()
	})
	return p, read
}

// serve starts `purser ui`, and returns the address that it prints.
func serve(t *testing.T, bin string, args ...string) string {
	t.Helper()
	_, out := program(t, bin, append([]string{"ui", "--no-open"}, args...)...)
	line := make([]byte, 1<<10)
	n, err := out.Read(line)
	must(t, err)
	address := strings.TrimSpace(string(line[:n]))
	if !strings.HasPrefix(address, "http://127.0.0.1:") {
		t.Fatalf("it printed %q", address)
	}
	return address
}

// origin is the address of the pages without the token.
func origin(address string) string {
	origin, _, _ := strings.Cut(address, "?")
	return origin
}

// A claim that is stuck is seen on the board without a reload. Its page says what to do; after that
// has been done, it is seen to turn well. Then the same pages are read from the record of it, from a
// dump, and from a report file with the network off.
func TestStuckClaimIsSeenAndMended(t *testing.T) {
	b := newBrowser(t, true)
	metrics, err := scrape.FreeAddress()
	must(t, err)
	s := cluster(t, "--ui", "--attach-required", "--http-endpoint", metrics)
	must(t, s.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
	record := filepath.Join(t.TempDir(), "record.jsonl")
	recorder, _ := program(t, s.Bin, "record", "--kubeconfig", s.Kubeconfig(), "-o", record, "--role-endpoint", "http://"+metrics)
	awaitFile(t, record, `"op":"listed"`)

	printed := regexp.MustCompile(`Its pages are at (http://127\S+)`).FindStringSubmatch(s.Output())
	if printed == nil {
		t.Fatalf("up printed %s", s.Output())
	}
	address := printed[1]
	b.open(address)
	b.has("Nothing is stuck")
	b.accessible("the board without causes")
	b.js(`window.sameDocument = true`)

	makeStuck(t, s)
	b.has("ClassMissing")
	if !value[bool](b, `window.sameDocument === true`) {
		t.Error("the board was loaded anew")
	}
	b.until(`document.getElementById('said').textContent.includes('stuck')`)
	b.js(`document.querySelector('details.cause').open = true`)
	b.accessible("the board")
	b.picture("ui-board", 1100, 760)
	b.keyboard("the board")

	b.follow(`details.cause a[href*="kind=pvc"]`)
	b.has("Now: stuck")
	b.accessible("the page of a stuck claim")
	b.js(`window.sameDocument = true`)
	b.follow(`button.copy`)
	b.until(`/Copied|selected/.test(document.getElementById('said').textContent)`)
	followFix(t, b, s)
	b.has("Now: well")
	if !value[bool](b, `window.sameDocument === true`) {
		t.Error("the page of the claim was loaded anew")
	}
	b.run(chromedp.Reload())
	b.has("created to mounted")
	b.has("ControllerPublishVolume")
	lifeIsUsable(t, b)
	b.keyboard("the life")
	b.picture("ui-life", 1100, 900)
	for _, page := range []string{"map", "numbers", "open", "map?q=data", "reason?name=ClassMissing"} {
		b.open(origin(address) + page)
		b.accessible(page)
		if page == "map" || page == "numbers" {
			b.picture("ui-"+page, 1100, 700)
		}
		b.keyboard(page)
	}
	b.open(origin(address) + "board")
	b.has("Nothing is stuck")
	b.wellBehaved(origin(address))

	must(t, recorder.Stop())
	offline(t, s, record)
}

// makeStuck creates a claim of a class that does not exist, with its pod.
func makeStuck(t *testing.T, s *stage.Stage) {
	t.Helper()
	class := "fast"
	must(t, s.Client.Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}},
		},
	}))
	must(t, s.Client.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "busybox", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}},
		},
	}))
}

// followFix does what the page says: it creates the class, like one that the page's command lists.
func followFix(t *testing.T, b *browser, s *stage.Stage) {
	t.Helper()
	b.has("Create the StorageClass")
	command := value[string](b, `document.querySelector('button.copy').dataset.copy`)
	words := strings.Fields(command)
	if len(words) < 3 || words[0] != "kubectl" {
		t.Fatalf("the command is %q", command)
	}
	listed, err := s.Kubectl(t.Context(), words[1:]...)
	must(t, err)
	like := &storagev1.StorageClass{}
	must(t, s.Client.Get(t.Context(), keyOf("purser"), like))
	if !strings.Contains(listed, like.Provisioner) {
		t.Errorf("%s printed %s", command, listed)
	}
	must(t, s.Client.Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: like.Provisioner,
		ReclaimPolicy: like.ReclaimPolicy, VolumeBindingMode: like.VolumeBindingMode,
	}))
}

// lifeIsUsable zooms, moves, chooses an interval and a time.
func lifeIsUsable(t *testing.T, b *browser) {
	t.Helper()
	place := `document.querySelector('a.bar.phase .fill').getAttribute('width')`
	before := value[string](b, place)
	b.follow(`.tools [data-do="in"]`)
	b.until(place + ` !== '` + before + `'`)
	b.follow(`.tools [data-do="whole"]`)
	b.js(`document.querySelector('a.bar.slow').focus()`)
	b.press("\r")
	b.until(`document.querySelector('.detail').textContent.includes('Slowest')`)
	b.until(`document.querySelector('a.bar.slow[aria-current]') !== null`)
	if n := value[int](b, `document.querySelectorAll('.detail .finding dt').length`); n < 4 {
		t.Errorf("%d parts of the explanation are shown", n)
	}
	b.js(`(() => { const s = document.getElementById('after'); s.value = s.max * 0.02;
		s.dispatchEvent(new Event('input', {bubbles: true})); s.dispatchEvent(new Event('change', {bubbles: true})); })()`)
	b.until(`document.getElementById('atpart').textContent.includes('At ')`)
	b.until(`document.querySelector('.cursor').getAttribute('x1') !== '-1%'`)
	if n := value[int](b, `document.querySelectorAll('table.diff tr').length`); n == 0 {
		t.Error("no write has its fields")
	}
	b.accessible("the life")
}

// offline reads the record and a dump, and a report of the record, without a cluster and with the
// network off.
func offline(t *testing.T, s *stage.Stage, record string) {
	t.Helper()
	dir := t.TempDir()
	dump, report := filepath.Join(dir, "dump.json"), filepath.Join(dir, "report.html")
	makeOtherStuck(t, s)
	text := output(t, s.Bin, "dump", "--kubeconfig", s.Kubeconfig())
	must(t, os.WriteFile(dump, []byte(text), 0o600))
	output(t, s.Bin, "report", "--from", record, "-o", report)

	b := newBrowser(t, true)
	address := serve(t, s.Bin, "--from", dump)
	b.open(address)
	b.has("ClassMissing")
	b.follow(`details.cause summary`)
	b.follow(`details.cause[open] a[href*="kind=pvc"]`)
	b.has("Now: stuck")
	// The record is opened on the page, as if it were dropped there.
	b.open(origin(address) + "open")
	b.run(chromedp.SetUploadFiles(chromedp.CSS(`#file`), []string{record}))
	b.follow(`#drop button`)
	b.has("Nothing is stuck")
	b.open(value[string](b, `new URL('life?kind=pvc&namespace=shop&name=data', location).href`))
	b.has("created to mounted")
	lifeIsUsable(t, b)
	// And it is dropped on another page.
	content, err := os.ReadFile(dump)
	must(t, err)
	b.open(origin(address) + "map")
	b.js(fmt.Sprintf(`const data = new DataTransfer(); data.items.add(new File([%q], 'dropped.json'));
		document.body.dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}))`, content))
	b.until(`location.pathname.startsWith('/f/')`)
	b.has("ClassMissing")
	b.until(`document.querySelector('.source').textContent === 'dropped.json'`)
	b.wellBehaved(origin(address))

	b = newBrowser(t, false)
	b.open("file://" + report)
	b.has("Nothing is stuck")
	b.accessible("the report")
	b.follow(`nav a[href="#!numbers"]`)
	b.has("Slowest volumes")
	b.follow(`a[href^="#!life"]`)
	b.has("created to mounted")
	b.js(`document.querySelector('a.bar.slow').focus()`)
	b.press("\r")
	b.until(`document.querySelector('.detail').textContent.includes('Slowest')`)
	b.accessible("the life in the report")
	b.keyboard("the life in the report")
	b.run(chromedp.Reload())
	b.has("created to mounted")
	b.wellBehaved("file://" + report)
}

// makeOtherStuck creates a claim that is stuck in the dump.
func makeOtherStuck(t *testing.T, s *stage.Stage) {
	t.Helper()
	class := "absent"
	must(t, s.Client.Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "later"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}},
		},
	}))
}
