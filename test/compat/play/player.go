package play

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/purser-csi/purser/test/compat/record"
	"github.com/purser-csi/purser/test/compat/scenario"
)

// Stage has the cluster and the settings for playing scenarios.
type Stage struct {
	API      dynamic.Interface
	Recorder *record.Recorder
	Calm     time.Duration // how long nothing may happen before it counts as quiet
	Patience time.Duration // for everything that is waited for
	Driver   Driver        // nil where scenarios have no CSI driver
}

// Driver is a CSI driver whose answers the scenarios set.
type Driver interface {
	// Answer sets the answer to the next calls about a volume.
	Answer(handle string, s scenario.Step) error
	// Calls returns how many calls about a volume there were.
	Calls(handle string) int
}

// Player plays one scenario.
type Player struct {
	stage Stage
	play  scenario.Scenario
	uids  map[string][]string // by KIND/NAME, in the order of creation

	// Writes are the resource versions of what the scenario itself wrote.
	Writes map[int64]bool
	// Failures are the waits and expectations that were not met.
	Failures []string
}

// New returns a player that has created no objects yet.
func New(stage Stage, s scenario.Scenario) *Player {
	return &Player{stage: stage, play: s, uids: map[string][]string{}, Writes: map[int64]bool{}}
}

// CreateNamespace creates the scenario's namespace.
func (p *Player) CreateNamespace(ctx context.Context) error {
	namespace := record.Kind{}
	namespace.Resource.Version, namespace.Resource.Resource = "v1", "namespaces"
	account := namespace
	account.Resource.Resource, account.Namespaced = "serviceaccounts", true
	for _, o := range []struct {
		kind record.Kind
		name string
		what string
	}{{namespace, p.play.Name, "Namespace"}, {account, "default", "ServiceAccount"}} {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": o.what, "metadata": map[string]any{"name": o.name},
		}}
		_, err := p.of(o.kind).Create(ctx, object, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("%s %s: %w", o.what, o.name, err)
		}
	}
	return nil
}

// Before takes the steps that come before the controllers start.
func (p *Player) Before(ctx context.Context) error {
	return p.take(ctx, p.play.Steps[:p.play.Cold])
}

// After takes the other steps, and returns when everything is quiet.
func (p *Player) After(ctx context.Context) error {
	p.stage.Recorder.Touch(p.play.Name) // controllers that have just started need time
	if err := p.take(ctx, p.play.Steps[p.play.Cold:]); err != nil {
		return err
	}
	return p.settle(ctx)
}

// Try takes all steps, and skips those that the API server refuses.
func (p *Player) Try(ctx context.Context) error {
	for _, step := range p.play.Steps {
		err := p.step(ctx, step)
		if status := apierrors.APIStatus(nil); err != nil && !errors.As(err, &status) && !errors.Is(err, errNoObject) {
			return fmt.Errorf("line %d: %s: %w", step.Line, step.Text, err)
		}
	}
	return p.settle(ctx)
}

func (p *Player) take(ctx context.Context, steps []scenario.Step) error {
	for _, step := range steps {
		if err := p.step(ctx, step); err != nil {
			return fmt.Errorf("line %d: %s: %w", step.Line, step.Text, err)
		}
	}
	return nil
}

func (p *Player) step(ctx context.Context, s scenario.Step) (err error) {
	s.Options = slices.Clone(s.Options)
	for i := range s.Options {
		if s.Options[i].Value, err = p.resolve(s.Options[i].Value); err != nil {
			return err
		}
	}
	switch s.Verb {
	case scenario.Create:
		return p.create(ctx, s)
	case scenario.Patch:
		return p.patch(ctx, s)
	case scenario.Status:
		return p.patch(ctx, s, "status")
	case scenario.Delete:
		return p.delete(ctx, s)
	case scenario.Provision:
		return p.provision(ctx, s)
	case scenario.Discard:
		return p.discard(ctx, s)
	case scenario.Answer:
		return p.stage.Driver.Answer(p.shared(s.Name), s)
	case scenario.Settle:
		return p.settle(ctx)
	case scenario.Wait:
		return p.wait(ctx, s)
	case scenario.Expect:
		return p.expect(ctx, s)
	case scenario.Start:
	}
	return fmt.Errorf("no player for %q", s.Verb)
}

// kindOf is the kind of a step's object.
func kindOf(s scenario.Step) record.Kind {
	k, _ := record.KindOf(string(s.Kind)) // the parser knows the same kinds
	return k
}

func (p *Player) of(k record.Kind) dynamic.ResourceInterface {
	if k.Namespaced {
		return p.stage.API.Resource(k.Resource).Namespace(p.play.Name)
	}
	return p.stage.API.Resource(k.Resource)
}

// place is an object's real namespace and name.
func (p *Player) place(k record.Kind, name string) (namespace, real string) {
	if k.Namespaced {
		return p.play.Name, name
	}
	return "", p.shared(name)
}

func (p *Player) shared(name string) string { return record.Shared(p.play.Name, name) }

// wrote records a write of the scenario itself.
func (p *Player) wrote(o *unstructured.Unstructured) {
	if at, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64); err == nil {
		p.Writes[at] = true
	}
	p.stage.Recorder.Touch(p.play.Name)
}

func (p *Player) create(ctx context.Context, s scenario.Step) error {
	object, status, err := p.build(s)
	if err != nil {
		return err
	}
	k := kindOf(s)
	made, err := p.of(k).Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	p.wrote(made)
	key := k.Name + "/" + s.Name
	p.uids[key] = append(p.uids[key], string(made.GetUID()))
	if status == "" {
		return nil
	}
	return p.send(ctx, k, made.GetName(), status, "status")
}

func (p *Player) patch(ctx context.Context, s scenario.Step, part ...string) error {
	k := kindOf(s)
	_, name := p.place(k, s.Name)
	text, err := p.resolve(s.Words[0])
	if err != nil {
		return err
	}
	return p.send(ctx, k, name, text, part...)
}

// send has no resource version: controllers may write at the same moment.
func (p *Player) send(ctx context.Context, k record.Kind, name, merge string, part ...string) error {
	patched, err := p.of(k).Patch(ctx, name, types.MergePatchType, []byte(merge), metav1.PatchOptions{}, part...)
	if err != nil {
		return err
	}
	p.wrote(patched)
	return p.ended(ctx, k, patched)
}

// ended waits for the deletion event of an object that a write has removed, which has its own
// resourceVersion.
func (p *Player) ended(ctx context.Context, k record.Kind, o *unstructured.Unstructured) error {
	if o.GetDeletionTimestamp() == nil || len(o.GetFinalizers()) > 0 || k == record.Pods {
		return nil
	}
	return p.until(ctx, func() string {
		for _, c := range p.History() {
			if c.Gone && c.Object.GetUID() == o.GetUID() {
				p.Writes[c.At] = true
				return ""
			}
		}
		return "no event reports the end of " + k.Name + " " + o.GetName()
	})
}

func (p *Player) delete(ctx context.Context, s scenario.Step) error {
	k := kindOf(s)
	_, name := p.place(k, s.Name)
	options := metav1.DeleteOptions{}
	if k == record.Pods && (len(s.Words) == 0 || s.Words[0] != "gracefully") {
		options.GracePeriodSeconds = new(int64) // no kubelet ends the containers
	}
	p.stage.Recorder.Touch(p.play.Name)
	return p.of(k).Delete(ctx, name, options)
}

func (p *Player) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.stage.Patience)
	defer cancel()
	return p.stage.Recorder.Quiet(ctx, p.play.Name, p.stage.Calm)
}

var reference = regexp.MustCompile(`<([a-z0-9:/#.-]+)>`)

// resolve replaces <ns>, <NAME> by the real name of an object without a namespace, and
// <uid:KIND/NAME> or <uid:KIND/NAME#2>.
func (p *Player) resolve(text string) (string, error) {
	var failed error
	out := reference.ReplaceAllStringFunc(text, func(found string) string {
		inner := found[1 : len(found)-1]
		if inner == "ns" {
			return p.play.Name
		}
		if key, ok := strings.CutPrefix(inner, "uid:"); ok {
			uid, err := p.uid(key)
			if err != nil {
				failed = err
			}
			return uid
		}
		return p.shared(inner)
	})
	return out, failed
}

// uid returns the uid of an object that the scenario or the controllers created.
func (p *Player) uid(key string) (string, error) {
	place, number, numbered := strings.Cut(key, "#")
	if all := p.uids[place]; len(all) > 0 {
		if !numbered {
			return all[len(all)-1], nil
		}
		if n, err := strconv.Atoi(number); err == nil && n >= 1 && n <= len(all) {
			return all[n-1], nil
		}
	}
	kind, name, _ := strings.Cut(place, "/")
	if k, ok := record.KindOf(kind); ok {
		if o, ok := p.stage.Recorder.Get(k, p.play.Name, name); ok {
			return string(o.GetUID()), nil
		}
	}
	return "", fmt.Errorf("%w: there is no %s", errNoObject, key)
}

// errNoObject is the error of a step that needs the uid of an object that does not exist.
var errNoObject = errors.New("the uid of no object is meant")

// History is what has happened to the scenario.
func (p *Player) History() []record.Change { return p.stage.Recorder.History(p.play.Name) }
