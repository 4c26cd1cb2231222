package ui

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var update = flag.Bool("update", false, "write the pictures of docs/ui.md")

// checks has the functions of the accessibility check.
//
//go:embed testdata/checks.js
var checks string

// patience bounds each wait for the browser.
const patience = 60 * time.Second

// chromium returns the path of a Chromium. It skips the test if there is none.
func chromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium on the PATH (Debian: apt-get install chromium)")
	return ""
}

// browser is one tab. It cannot reach anything but this machine.
type browser struct {
	*testing.T

	ctx context.Context
	mu  sync.Mutex
	log []string // requests, and what the browser complains about
	bad []string
}

// newBrowser starts a browser. With the network off it cannot reach this machine either.
func newBrowser(t *testing.T, isOnline bool) *browser {
	t.Helper()
	rules := "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"
	if !isOnline {
		rules = "MAP * ~NOTFOUND"
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)), chromedp.NoSandbox,
		chromedp.Flag("host-resolver-rules", rules), chromedp.WindowSize(1100, 760))
	b := &browser{T: t}
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	b.ctx, stop = chromedp.NewContext(ctx, chromedp.WithListener(b.listen))
	t.Cleanup(stop)
	// The first action starts the browser, which ends with the context that it has.
	must(t, chromedp.Do(b.ctx, chromedp.Navigate("about:blank")))
	call(b, network.Enable, network.EnableParams{})
	call(b, log.Enable, cdp.Empty{})
	b.size(1100, 760)
	return b
}

// listen notes requests, errors of scripts and violations of the policy.
func (b *browser) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.log = append(b.log, e.Request.URL)
	case *runtime.EventExceptionThrown:
		b.bad = append(b.bad, fmt.Sprintf("%s, line %d: %+v", e.ExceptionDetails.Text, e.ExceptionDetails.LineNumber, e.ExceptionDetails.Exception))
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			b.bad = append(b.bad, e.Entry.Text)
		}
	}
}

// get runs an action within the patience, and returns its value.
func get[T any](b *browser, action chromedp.Action[T]) T {
	b.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		b.Fatalf("%v\non %s", err, b.where())
	}
	return v
}

// where is the address and the text of the page.
func (b *browser) where() string {
	ctx, stop := context.WithTimeout(b.ctx, time.Second)
	defer stop()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`))
	return text
}

func call[P, R any](b *browser, command cdp.Command[P, R], params P) R {
	b.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	r, err := chromedp.Call(ctx, command, params)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func (b *browser) run(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	for _, action := range actions {
		get(b, action)
	}
}

// size sets the size of the window.
func (b *browser) size(width, height int64) {
	b.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1})
}

// open opens an address, and returns when its script has run.
func (b *browser) open(address string) {
	b.Helper()
	b.run(chromedp.Navigate(address))
	b.until(`document.documentElement.hasAttribute('data-ready')`)
}

// until waits until an expression is true. The policy of the pages forbids the functions that
// chromedp.Poll would make.
func (b *browser) until(expression string) {
	b.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		// While a page is left, there is nothing to evaluate in.
		if is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`Boolean(`+expression+`)`)); err == nil && is {
			return
		}
		select {
		case <-ctx.Done():
			b.Fatalf("%s is not true\non %s", expression, b.where())
		case <-tick.C:
		}
	}
}

// has waits until the main part has a text.
func (b *browser) has(text string) {
	b.Helper()
	b.until(fmt.Sprintf(`document.getElementById('main') && document.getElementById('main').textContent.includes(%q)`, text))
}

// value returns the value of an expression.
func value[T any](b *browser, expression string) T {
	b.Helper()
	return get(b, chromedp.Evaluate[T](expression))
}

// js runs a script.
func (b *browser) js(script string) {
	b.Helper()
	value[bool](b, script+`; true`)
}

// press presses a key.
func (b *browser) press(key string) {
	b.Helper()
	b.run(chromedp.KeyEvent(key))
}

// follow clicks on what a selector finds first.
func (b *browser) follow(selector string) {
	b.Helper()
	b.run(chromedp.WaitVisible(chromedp.CSS(selector)), chromedp.Click(chromedp.CSS(selector)))
}

// wellBehaved fails if the browser complained, or asked another address than those that begin with
// one of the given texts.
func (b *browser) wellBehaved(addresses ...string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range b.bad {
		b.Errorf("the browser says: %s", text)
	}
	b.bad = nil
	for _, url := range b.log {
		isOwn := strings.HasPrefix(url, "data:") || url == "about:blank"
		for _, address := range addresses {
			isOwn = isOwn || strings.HasPrefix(url, address)
		}
		if !isOwn {
			b.Errorf("the page asked %s", url)
		}
	}
}

// picture writes a picture of docs/ui.md.
func (b *browser) picture(name string, width, height int64) {
	b.Helper()
	if !*update {
		return
	}
	b.size(width, height)
	b.js(`document.activeElement.blur(), scrollTo(0, 0)`)
	png := get(b, chromedp.CaptureScreenshot())
	path := filepath.Join("..", "..", "docs", "images", name+".png")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, fewColours(b.T, png), 0o600); err != nil {
		b.Fatal(err)
	}
}

// widths are those that the pages are checked at.
var widths = []int64{320, 768, 1280, 2560}

// accessible checks the present page at each width, and with a dark background.
func (b *browser) accessible(name string) {
	b.Helper()
	b.js(checks)
	for _, scheme := range []string{"light", "dark"} {
		call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		for _, width := range widths {
			b.size(width, 900)
			for _, fault := range value[[]string](b, `purserFaults()`) {
				b.Errorf("%s, %d pixels, %s: %s", name, width, scheme, fault)
			}
		}
	}
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{})
	b.size(1100, 760)
}
