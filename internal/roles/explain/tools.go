package explain

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	rules "github.com/purser-csi/purser/internal/explain/rules"
)

// Tools answers a program in place of a terminal: the commands as functions, over one source. Each call reads
// the source anew, and returns the text of the command and what -o json prints, as JSON; nil for none.
// A namespace replaces that of the flags, if it is not empty.
type Tools struct {
	source

	maxSize string
}

// Flags adds the flags that select the source.
func (t *Tools) Flags(f *pflag.FlagSet) {
	t.flags(f)
	t.dumpFlags(f)
	f.StringVar(&t.maxSize, "max-size", "1Mi", "`size` of a dump at most; the oldest events are left out first")
}

// Validate refuses a source that cannot be read again.
func (t *Tools) Validate() error {
	if slices.Contains(t.from, "-") {
		return ExitError{exitUnknown, errors.New(
			"--from=-: standard input carries the protocol; give a file or a folder",
		)}
	}
	return nil
}

// Explain answers as `purser explain`. Without an object, and without all, the JSON leaves out the reports:
// the groups have the cause of each.
func (t *Tools) Explain(
	ctx context.Context, object, namespace string, all bool,
) (text string, encoded []byte, err error) {
	o := &explainOptions{source: t.of(namespace), output: "text", all: all}
	answer, err := o.answer(ctx, strings.Fields(object))
	if err != nil {
		return "", nil, err
	}
	if text, err = o.render(answer); err != nil {
		return "", nil, err
	}
	if object == "" && !all {
		answer.Reports = []rules.Report{}
	}
	return withJSON(text, answer)
}

// Tree answers as `purser tree`.
func (t *Tools) Tree(ctx context.Context, object, namespace string) (text string, encoded []byte, err error) {
	of, out := t.of(namespace), &strings.Builder{}
	root, err := of.treeOf(ctx, out, strings.Fields(object))
	if answer, isExit := errors.AsType[ExitError](err); isExit && answer.IsTold() {
		return out.String(), nil, nil
	}
	if err == nil {
		err = printTree(out, root, "text")
	}
	if err != nil {
		return "", nil, err
	}
	return withJSON(out.String(), Tree{schemaTree, root})
}

// Dump answers as `purser dump`.
func (t *Tools) Dump(ctx context.Context, namespace string, hideNames bool) (string, error) {
	out := &strings.Builder{}
	o := &dumpOptions{source: t.of(namespace), hideNames: hideNames, maxSize: t.maxSize, out: out}
	err := o.run(ctx)
	return out.String(), err
}

func withJSON(text string, answer any) (string, []byte, error) {
	encoded, err := encode(answer, "json")
	return text, []byte(encoded), err
}
