package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	core "github.com/purser-csi/purser/internal/core/explain"
)

func newTree(streams Streams) *cobra.Command {
	s := &source{in: streams.In}
	output := "text"
	c := &cobra.Command{
		Use:   "tree KIND/NAME",
		Short: "Show the objects around a claim, volume, pod or node",
		Long: `Prints the objects related to an object with their state and age, and for each
the most important problem, in 80 columns.`,
		Example: `  purser tree pod/web-0 -n shop`,
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			return cannotTell(s.tree(c.Context(), streams.Out, args, output))
		},
	}
	s.flags(c.Flags())
	s.dumpFlags(c.Flags())
	c.Flags().StringVarP(&output, "output", "o", output, "`format`: text, json or yaml")
	return c
}

func (s *source) tree(ctx context.Context, out io.Writer, args []string, format string) error {
	cluster, namespace, err := s.read(ctx)
	if err != nil {
		return err
	}
	ref, err := parseRef(args, namespace)
	if err != nil {
		return err
	}
	root, ok := cluster.Tree(ref)
	if !ok {
		fmt.Fprintf(out, "%s: %s\n", ref, cluster.Explain(ref).Summary)
		return ExitError{Code: exitUnknown}
	}
	return printTree(out, root, format)
}

func printTree(out io.Writer, root core.Branch, format string) error {
	switch format {
	case "json":
		text, err := json.MarshalIndent(root, "", "  ")
		fmt.Fprintln(out, string(text))
		return err
	case "yaml":
		text, err := yaml.Marshal(root)
		fmt.Fprint(out, string(text))
		return err
	case "text":
		p := printer{width: treeWidth, style: styleFor(out)}
		p.tree(root, "", "")
		_, err := io.WriteString(out, p.String())
		return err
	}
	return fmt.Errorf("--output=%s: expected text, json or yaml", format)
}

const treeWidth = 80

// tree prints a branch and its children. first is put before the branch, rest before everything
// below it.
func (p *printer) tree(b core.Branch, first, rest string) {
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
		p.line("%s", p.style.bad+cut(mark+b.Wrong, treeWidth)+p.style.off)
	}
	for i, child := range b.Children {
		if i == len(b.Children)-1 {
			p.tree(child, rest+"└─ ", rest+"   ")
		} else {
			p.tree(child, rest+"├─ ", rest+"│  ")
		}
	}
}

// cut shortens a line to a number of characters.
func cut(line string, width int) string {
	runes := []rune(line)
	if len(runes) <= width {
		return line
	}
	return string(runes[:width-1]) + "…"
}
