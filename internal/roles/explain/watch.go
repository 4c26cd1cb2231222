package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/purser-csi/purser/internal/explain/inventory"
	rules "github.com/purser-csi/purser/internal/explain/rules"
)

const (
	// settle is how long changes are collected before they are explained: one step of the volume
	// plane writes several objects.
	settle = 500 * time.Millisecond
	// lookAgain is after how long the objects are explained without a change: a lease may have
	// expired, or a time have passed. It sends no request.
	lookAgain = 10 * time.Second
)

// follow prints the answer, and after each change of the objects what has changed in it, until
// nothing is stuck.
func (o *explainOptions) follow(ctx context.Context, args []string) error {
	if len(o.from) > 0 {
		return errors.New("--watch: a dump does not change; leave out --from or --watch")
	}
	selector, err := o.selected(args)
	if err != nil {
		return err
	}
	asked, err := kindsOf(args)
	if err != nil {
		return err
	}
	from, namespace, err := o.client()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	watcher, err := inventory.Watch(ctx, from, namespace, asked...)
	if err != nil {
		return err
	}
	var before *Answer
	for {
		answer, err := o.answerFrom(watcher.Cluster(time.Now()), namespace, selector, args)
		if err == nil {
			err = o.printChange(before, answer)
		}
		code := exitCode(answer)
		switch {
		case err != nil:
			return err
		case code == 0:
			return nil
		case !changedOrLater(ctx, watcher.Changed()):
			return ExitError{Code: code}
		}
		before = &answer
	}
}

// changedOrLater returns after a change has settled, or after a while without one; false at the end
// of the context.
func changedOrLater(ctx context.Context, changed <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(lookAgain):
		return true
	case <-changed:
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(settle):
		return true
	}
}

// printChange prints the whole answer first, and then what differs from the previous one. As JSON
// or YAML it prints each answer that differs.
func (o *explainOptions) printChange(before *Answer, answer Answer) error {
	var text string
	var err error
	switch {
	case before == nil:
		text, err = o.render(answer)
	case len(changes(*before, answer)) == 0:
	case o.output == "text":
		p := printer{width: widthOf(o.out), style: styleFor(o.out)}
		p.changes(changes(*before, answer), answer.Time)
		text = p.String()
	default:
		text, err = o.render(answer)
		if o.output == "yaml" {
			text = "---\n" + text
		}
	}
	if err == nil {
		_, err = io.WriteString(o.out, text)
	}
	return err
}

// change is what differs between two answers about one object.
type change struct {
	object        rules.Ref
	before, after string // the state with its reason
	report        *rules.Report
}

// changes compares two answers by the state of each object, and by the reason and cause of what it
// waits for. Ages and lists of evidence differ at each time, and are no changes.
func changes(before, after Answer) (all []change) {
	earlier := map[rules.Ref]string{}
	for _, report := range before.Reports {
		earlier[report.Object] = stateOf(report)
	}
	for i, report := range after.Reports {
		was, had := earlier[report.Object]
		delete(earlier, report.Object)
		if now := stateOf(report); !had || was != now {
			all = append(all, change{report.Object, was, now, &after.Reports[i]})
		}
	}
	for _, report := range before.Reports {
		if was, gone := earlier[report.Object]; gone {
			all = append(all, change{report.Object, was, "not stuck", nil})
		}
	}
	return all
}

// stateOf is the state of an object with what it waits for.
func stateOf(report rules.Report) string {
	var waits []string
	for _, f := range report.Findings {
		wait := fmt.Sprintf("%s (%s)", f.Reason, f.Cause)
		if !slices.Contains(waits, wait) {
			waits = append(waits, wait)
		}
	}
	if len(waits) == 0 {
		return string(report.State)
	}
	return strings.Join(waits, ", ")
}

// changes prints a line for each change, and the answer about each object that waits for something
// else now or that is well.
func (p *printer) changes(all []change, at time.Time) {
	for _, c := range all {
		p.line("")
		line := fmt.Sprintf("%s  %s: %s", at.Format(time.TimeOnly), c.object, c.after)
		if c.before != "" {
			line += ", before " + c.before
		}
		p.paragraph("", "", line)
		if c.report != nil {
			p.report(*c.report)
		}
	}
}
