package reports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// command is a command of a script; see the package comment.
type command struct {
	*testscript.TestScript
	*script

	neg  bool
	args []string
}

// commands are those in addition to testscript's.
func commands() map[string]func(ts *testscript.TestScript, neg bool, args []string) {
	all := map[string]func(ts *testscript.TestScript, neg bool, args []string){}
	for name, run := range map[string]func(command){
		"kubectl": func(c command) { c.run("kubectl") }, "purser": func(c command) { c.run("purser") },
		"apply": command.apply, "let": command.let, "until": command.until, "event": command.event, "driver": command.driver,
		"quiet": command.quiet, "gone": command.gone, "leaves": command.leaves,
	} {
		all[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			s := ts.Value(scriptKey{}).(*script)
			run(command{TestScript: ts, script: s, neg: neg, args: args})
		}
	}
	return all
}

// ctx is the context of the commands: waits are bounded by patience, and programs by the test's timeout.
func (command) ctx() context.Context { return context.Background() }

// need fails the script unless a command has enough arguments, and is not negated where that means
// nothing.
func (c command) need(count int, negatable bool, usage string) {
	if len(c.args) < count || c.neg && !negatable {
		c.Fatalf("usage: %s", usage)
	}
}

// run runs a built program, like `exec`.
func (c command) run(program string) {
	c.finish(c.Exec(filepath.Join(c.plane.Bin, program), c.args...))
}

// finish ends a command that ran a program.
func (c command) finish(err error) {
	if err != nil && !c.neg {
		c.Fatalf("%v", err)
	}
	if err == nil && c.neg {
		c.Fatalf("unexpected success")
	}
}

// output runs a command of `until`, and returns all that it prints. A command that fails is no error.
func (c command) output(ctx context.Context, args []string) string {
	if args[0] == "driver" && len(args) == 2 && args[1] == "things" {
		return strings.Join(c.plane.driver.things(c.namespace, false), "\n")
	}
	if args[0] != "kubectl" && args[0] != "purser" {
		c.Fatalf("unknown command %q: kubectl, purser or `driver things`", args[0])
	}
	program := exec.CommandContext(ctx, filepath.Join(c.plane.Bin, args[0]), args[1:]...)
	program.Env = append(os.Environ(), "KUBECONFIG="+c.Getenv("KUBECONFIG"))
	program.Dir = c.dir
	out, err := program.CombinedOutput()
	if err != nil {
		out = fmt.Appendf(out, "\n%v", err)
	}
	return string(out)
}

func (c command) pattern(text string) *regexp.Regexp {
	p, err := regexp.Compile("(?m)" + text)
	c.Check(err)
	return p
}

// until repeats a command until what it prints matches a pattern.
func (c command) until() {
	c.need(2, true, "[!] until PATTERN kubectl|purser ARGS")
	want := c.pattern(c.args[0])
	c.wait(func(ctx context.Context) error {
		out := c.output(ctx, c.args[1:])
		if want.MatchString(out) != c.neg {
			return nil
		}
		return fmt.Errorf("%s printed:\n%s", strings.Join(c.args[1:], " "), out)
	})
}

// wait repeats an attempt until it returns nil, and fails the script when the patience has ended.
func (c command) wait(attempt func(context.Context) error) {
	if err := eventually(c.ctx(), attempt); err != nil {
		c.Fatalf("%v", err)
	}
}

// let sets a variable to what a command prints.
func (c command) let() {
	c.need(2, false, "let NAME kubectl ARGS")
	program := exec.CommandContext(c.ctx(), filepath.Join(c.plane.Bin, c.args[1]), c.args[2:]...)
	program.Env = append(os.Environ(), "KUBECONFIG="+c.Getenv("KUBECONFIG"))
	var errs bytes.Buffer
	program.Stderr = &errs
	out, err := program.Output()
	if err != nil {
		c.Fatalf("%v: %s", err, &errs)
	}
	c.Setenv(c.args[0], strings.TrimSpace(string(out)))
}

// apply applies files, with the variables in them replaced.
func (c command) apply() {
	c.need(1, true, "[!] apply [FLAGS] FILE...")
	args := []string{"apply"}
	for _, arg := range c.args {
		if strings.HasPrefix(arg, "-") {
			args = append(args, arg)
			continue
		}
		text := os.Expand(c.ReadFile(arg), c.Getenv)
		c.expanded++
		file := filepath.Join(c.dir, fmt.Sprintf(".expanded-%d.yaml", c.expanded))
		c.Check(os.WriteFile(file, []byte(text), 0o600))
		args = append(args, "-f", file)
	}
	c.finish(c.Exec(filepath.Join(c.plane.Bin, "kubectl"), args...))
}

// event waits for an event about an object.
func (c command) event() {
	c.need(2, true, "[!] event KIND/NAME [TYPE/]REASON [PATTERN]")
	message := c.pattern(strings.Join(c.args[2:], " "))
	kind, name, found := strings.Cut(c.args[0], "/")
	if !found {
		c.Fatalf("%s: say KIND/NAME", c.args[0])
	}
	reason, eventType := c.args[1], ""
	if before, after, found := strings.Cut(reason, "/"); found {
		eventType, reason = before, after
	}
	find := func(ctx context.Context) error {
		var events corev1.EventList
		if err := c.plane.Client.List(ctx, &events, client.MatchingFields{"involvedObject.name": name}); err != nil {
			return err
		}
		var seen []string
		for _, e := range events.Items {
			if !isKind(kind, e.InvolvedObject.Kind) || e.Namespace != c.namespace && e.Namespace != "default" {
				continue
			}
			if e.Reason == reason && (eventType == "" || e.Type == eventType) && message.MatchString(e.Message) {
				return nil
			}
			seen = append(seen, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Message))
		}
		return fmt.Errorf("no event %s %q of %s; it has:\n%s", c.args[1], message, c.args[0], strings.Join(seen, "\n"))
	}
	if !c.neg {
		c.wait(find)
	} else if find(c.ctx()) == nil {
		c.Fatalf("%s has an event %s", c.args[0], c.args[1])
	}
}

// shortNames are those of kubectl.
var shortNames = map[string]string{
	"pvc": "persistentvolumeclaim", "pv": "persistentvolume", "vs": "volumesnapshot", "vsc": "volumesnapshotcontent",
	"sc": "storageclass", "sts": "statefulset", "po": "pod", "no": "node", "ns": "namespace",
}

func isKind(written, kind string) bool {
	if long := shortNames[written]; long != "" {
		written = long
	}
	return strings.EqualFold(written, kind)
}

// gone deletes objects and waits until they no longer exist.
func (c command) gone() {
	c.need(1, false, "gone KIND/NAME...")
	for _, object := range c.args {
		c.Check(c.Exec(filepath.Join(c.plane.Bin, "kubectl"), "delete", "--wait=false", "--ignore-not-found", object))
		c.wait(func(ctx context.Context) error {
			if out := c.output(ctx, []string{"kubectl", "get", object, "-o", "yaml"}); !strings.Contains(out, "(NotFound)") {
				return errors.New(out)
			}
			return nil
		})
	}
}

// leaves says what may remain at the end.
func (c command) leaves() {
	c.need(2, false, "leaves PATTERN WHY")
	c.remains = append(c.remains, regexp.MustCompile("^(?:"+c.args[0]+")$"))
}

// items returns the objects of a list.
func items(list client.ObjectList) (all []client.Object) {
	_ = meta.EachListItem(list, func(o runtime.Object) error { // every list here has items
		all = append(all, o.(client.Object))
		return nil
	})
	return all
}

// Each script's commands and namespace must be told apart by names that the API server accepts.
func TestNamesOfNamespaces(t *testing.T) {
	a, b := namespaceOf("sizes", "a-long-name-of-a-report-that-is-cut"), namespaceOf("waits", "a-long-name-of-a-report-that-is-cut")
	if a == b || len(a) > 40 {
		t.Errorf("namespaces %s and %s: want two short names", a, b)
	}
}
