package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purser-csi/purser/internal/explain/inventory"
	core "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/roles/clusterflags"
)

// shownKinds are the words for the kinds that completion and errors name.
var shownKinds = shortNames(core.Explainable)

func shortNames(kinds []core.Kind) (words []string) {
	for _, kind := range kinds {
		words = append(words, kind.Short())
	}
	return words
}

// parseRefs reads several KIND/NAME, or KIND and one or more NAME.
func parseRefs(args []string, namespace string) (refs []core.Ref, err error) {
	kind := ""
	if !strings.Contains(args[0], "/") && len(args) > 1 {
		kind, args = args[0]+"/", args[1:]
	}
	for _, arg := range args {
		ref, err := parseRef([]string{kind + arg}, namespace)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	return refs, nil
}

// kindsOf returns the kinds of the arguments; none without arguments.
func kindsOf(args []string) (kinds []core.Kind, err error) {
	if len(args) == 0 {
		return nil, nil
	}
	refs, err := parseRefs(args, "")
	for _, ref := range refs {
		kinds = append(kinds, ref.Kind)
	}
	return kinds, err
}

// unknownKind names the kinds, and first the one that may be meant.
func unknownKind(word string) error {
	meant := ""
	for _, kind := range shownKinds {
		if meant == "" && core.IsNear(word, kind) {
			meant = fmt.Sprintf("did you mean %s? ", kind)
		}
	}
	last := len(shownKinds) - 1
	return fmt.Errorf("%q: unknown kind; %sthere are %s and %s", word, meant,
		strings.Join(shownKinds[:last], ", "), shownKinds[last])
}

// explainNamed explains an object. If there is none of that name, Next says which may be meant.
func explainNamed(cluster *core.Cluster, ref core.Ref) core.Report {
	report := cluster.Explain(ref)
	if report.State != core.Unknown || len(report.Unread) > 0 {
		return report
	}
	var texts []string
	for _, similar := range cluster.Similar(ref) {
		texts = append(texts, similar.String())
	}
	if len(texts) > 0 {
		report.Next = "did you mean " + strings.Join(texts, " or ") + "?"
	}
	return report
}

// complete returns what the shell offers for an argument: a kind, or the names of one.
func (s *source) complete(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	kindText, _, hasKind := strings.Cut(typed, "/")
	prefix := kindText + "/"
	if !hasKind && len(args) > 0 && !strings.Contains(args[0], "/") {
		kindText, prefix, hasKind = args[0], "", true
	}
	if !hasKind {
		var kinds []string
		for _, kind := range shownKinds {
			if strings.HasPrefix(kind, typed) {
				kinds = append(kinds, kind+"/")
			}
		}
		return kinds, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
	ref, err := parseRef([]string{kindText, "any"}, "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names, err := s.namesOf(c.Context(), ref.Kind, strings.TrimPrefix(typed, prefix))
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	for i := range names {
		names[i] = prefix + names[i]
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// namesOf returns the names of objects of a kind that begin with a prefix, in the namespace of the
// flags or of the context. Of an API server it reads no other kind.
func (s *source) namesOf(ctx context.Context, kind core.Kind, prefix string) (names []string, err error) {
	if len(s.from) == 0 {
		return s.ListNames(ctx, inventory.VersionOf(kind), prefix)
	}
	s.notes = nil // the line that is typed stays as it is
	cluster, namespace, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	if !kind.IsNamespaced() {
		namespace = ""
	}
	for _, o := range cluster.Objects() {
		if o.Ref.Kind == kind && o.Ref.Namespace == namespace && strings.HasPrefix(o.Ref.Name, prefix) {
			names = append(names, o.Ref.Name)
		}
	}
	return names, nil
}

// completeFlags registers the completion of the flags that select the source, and of the format.
func (s *source) completeFlags(c *cobra.Command, formats ...string) {
	s.CompleteFlags(c)
	if len(formats) > 0 {
		clusterflags.CompleteValues(c, "output", formats...)
	}
}
