package explain

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	rules "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/printable"
)

func newTree(streams Streams) *cobra.Command {
	s := &source{in: streams.In, notes: streams.Err}
	output := "text"
	c := &cobra.Command{
		Use:   "tree KIND/NAME",
		Short: "Show the objects around a claim, volume, pod or node",
		Long: `Prints the objects related to an object with their state and age, and for each
the most important problem, in 80 columns.`,
		Example: `  purser tree pod/web-0 -n shop`,
		Args:    cobra.RangeArgs(1, 2),

		ValidArgsFunction: s.complete,
		RunE: func(c *cobra.Command, args []string) error {
			return cannotTell(s.tree(c.Context(), streams.Out, args, output))
		},
	}
	s.flags(c.Flags())
	s.dumpFlags(c.Flags())
	c.Flags().StringVarP(&output, "output", "o", output, "`format`: text, json or yaml")
	s.completeFlags(c, "text", "json", "yaml")
	setExitCodes(c, "printed")
	return c
}

func (s *source) tree(ctx context.Context, out io.Writer, args []string, format string) error {
	if format != "text" && format != "json" && format != "yaml" {
		return fmt.Errorf("--output=%s: expected text, json or yaml", format)
	}
	root, err := s.treeOf(ctx, out, args)
	if err != nil {
		return err
	}
	return printTree(out, root, format)
}

// treeOf returns the tree of an object. About one that is not there it prints why, and returns exitUnknown.
func (s *source) treeOf(ctx context.Context, out io.Writer, args []string) (rules.Branch, error) {
	cluster, namespace, err := s.read(ctx)
	if err != nil {
		return rules.Branch{}, err
	}
	ref, err := parseRef(args, namespace)
	if err != nil {
		return rules.Branch{}, err
	}
	root, ok := cluster.Tree(ref)
	if !ok {
		p := printer{width: treeWidth, style: styleFor(out)}
		report := explainNamed(cluster, ref)
		p.line("%s: %s", ref, report.Summary)
		if report.Next != "" {
			p.line("%s", report.Next)
		}
		if _, err := io.WriteString(out, p.String()); err != nil {
			return root, err
		}
		return root, ExitError{Code: exitUnknown}
	}
	return root, nil
}

// Tree is the output of tree with -o json or -o yaml.
type Tree struct {
	Schema string `json:"schema"`
	rules.Branch
}

func printTree(out io.Writer, root rules.Branch, format string) error {
	p := printer{width: treeWidth, style: styleFor(out)}
	p.tree(root, "", "")
	text, err := p.String(), error(nil)
	if format != "text" {
		text, err = encode(Tree{schemaTree, root}, format)
	}
	if err == nil {
		_, err = io.WriteString(out, text)
	}
	return err
}

const treeWidth = 80

// tree prints a branch and its children. first is put before the branch, rest before everything
// below it.
func (p *printer) tree(b rules.Branch, first, rest string) {
	head := fmt.Sprintf("%s%s  %s", first, b.Object, b.State)
	if b.Age != "" {
		head += "  " + b.Age
	}
	p.line("%s", cut(head, treeWidth))
	if b.Wrong != "" {
		mark := rest + "  ! "
		if len(b.Children) > 0 {
			mark = rest + "│ ! "
		}
		p.line("%s%s%s", p.style.bad, cut(mark+b.Wrong, treeWidth), p.style.off)
	}
	for i, child := range b.Children {
		if i == len(b.Children)-1 {
			p.tree(child, rest+"└─ ", rest+"   ")
		} else {
			p.tree(child, rest+"├─ ", rest+"│  ")
		}
	}
}

// cut shortens a line to a number of characters, counted as they are printed.
func cut(line string, width int) string {
	line = printable.Line(line)
	runes := []rune(line)
	if len(runes) <= width {
		return line
	}
	return string(runes[:width-1]) + "…"
}
