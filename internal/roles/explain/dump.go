package explain

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/explain/inventory"
	rules "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/printable"
	"github.com/purser-csi/purser/internal/size"
)

type dumpOptions struct {
	source
	rbac, hideNames bool
	maxSize         string
	endpoints       Endpoints
	asksRoles       bool          // what roles did last is read, too
	patience        time.Duration // bounds the wait for them
	out             io.Writer
}

func newDump(streams Streams) *cobra.Command {
	o := &dumpOptions{source: source{in: streams.In, notes: streams.Err}, out: streams.Out}
	o.asksRoles, o.patience = true, patienceWithRings
	c := &cobra.Command{
		Use:   "dump",
		Short: "Write all that explain needs into a file that can be sent",
		Long: `Writes the objects that explain reads, as one JSON List. Secrets are named
and their values are never read; the commands, arguments and environment of
containers are left out. What roles of Purser did last is in it where they
serve it (--purser-life) and can be reached. The output of explain and tree has names too: to send
it, make it from a dump with --hide-names.`,
		Example: `  purser dump > dump.json
  purser explain --from dump.json pvc/data -n shop

  purser dump --hide-names > hidden.json
  purser explain --from hidden.json -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return cannotTell(o.run(c.Context())) },
	}
	o.flags(c.Flags())
	o.dumpFlags(c.Flags())
	c.Flags().BoolVar(&o.rbac, "rbac", false, "print the ClusterRole that is needed, and read nothing")
	c.Flags().
		BoolVar(
			&o.hideNames, "hide-names", false,
			"replace the names of objects, namespaces and nodes, the same name always by the same word",
		)
	c.Flags().StringVar(
		&o.maxSize, "max-size", "50Mi", "`size` of the dump at most; the oldest events are left out first",
	)
	o.endpoints.AddFlags(c.Flags(), "that is no pod, or serves with --metrics-secure")
	o.completeFlags(c)
	setExitCodes(c, "written")
	return c
}

func (o *dumpOptions) run(ctx context.Context) error {
	if o.rbac {
		_, err := io.WriteString(o.out, clusterRole())
		return err
	}
	quantity, err := resource.ParseQuantity(o.maxSize)
	limit, problem := size.Bytes(quantity)
	if err != nil || problem != nil {
		return fmt.Errorf("--max-size=%s: expected a size such as 50Mi", o.maxSize)
	}
	if err := o.endpoints.Validate(); err != nil {
		return err
	}
	var items []map[string]any
	var serving []client.Object
	var failed error
	unread, at, err := o.each(ctx, func(object client.Object) {
		if pod, isPod := object.(*corev1.Pod); isPod && ringPort(pod) != "" {
			serving = append(serving, pod)
		}
		item, err := inventory.Content(object)
		if err != nil {
			failed = err
			return
		}
		ns := object.GetNamespace()
		isIn := o.Namespace == "" || ns == "" || ns == o.Namespace || inventory.TellsOfAll(object)
		if isIn && !inventory.IsOldRevision(object) {
			items = append(items, item)
		}
	})
	if err = cmp.Or(err, failed); err != nil {
		return err
	}
	if o.hideNames { // what roles did last has names that no object has, and is left out
		unread = maps.Clone(unread)
		items = inventory.HideNamesAndCauses(items, unread)
		return o.write(items, unread, at, limit)
	}
	items = append(items, itemsOf(o.ringsOf(ctx, serving), limit)...)
	return o.write(items, unread, at, limit)
}

// ringsOf returns what roles did last: those of the dump that is read, or of the roles themselves.
func (o *dumpOptions) ringsOf(ctx context.Context, serving []client.Object) []*ring {
	switch {
	case len(o.spans) > 0:
		return []*ring{{name: "dump", spans: o.spans}}
	case !o.asksRoles || len(o.from) > 0:
		return nil
	}
	return o.rings(ctx, serving)
}

// each calls a function with each object of the source, and returns the kinds that were not read
// and the time.
func (s *source) each(ctx context.Context, f func(client.Object)) (map[rules.Kind]string, time.Time, error) {
	if len(s.from) > 0 {
		builder, err := s.readDump()
		if err != nil {
			return nil, time.Time{}, err
		}
		for _, o := range builder.Objects() {
			f(o)
		}
		cluster := builder.Cluster()
		return cluster.Unread, cluster.Now, nil
	}
	reader, namespace, err := s.client()
	if err != nil {
		return nil, time.Time{}, err
	}
	unread, err := inventory.List(ctx, reader, namespace, nil, f)
	return unread, time.Now(), err
}

// write prints the List. It drops the oldest events if the List is larger than the limit.
func (o *dumpOptions) write(items []map[string]any, unread map[rules.Kind]string, at time.Time, limit int64) error {
	annotations := map[string]string{inventory.AnnDumpTime: at.UTC().Format(time.RFC3339)}
	maps.Copy(annotations, inventory.UnreadAnnotations(unread))
	items, dropped, err := fit(items, limit)
	if err != nil {
		return err
	}
	if dropped > 0 {
		annotations["purser/events-left-out"] = fmt.Sprint(dropped)
	}
	list := map[string]any{
		"apiVersion": "v1",
		"kind":       "List",
		"metadata":   map[string]any{"annotations": annotations},
		"items":      items,
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(list); err != nil {
		return err
	}
	_, err = io.WriteString(o.out, printable.JSON(text.String()))
	return err
}

// fit drops the oldest events until the rest is within the limit.
func fit(items []map[string]any, limit int64) (kept []map[string]any, dropped int, err error) {
	sizes := make([]int64, len(items))
	total := int64(0)
	var events []int
	for i, item := range items {
		text, err := json.Marshal(item)
		if err != nil {
			return nil, 0, err
		}
		sizes[i] = int64(len(text)) * 5 / 4 // with the indentation
		total += sizes[i]
		if item["kind"] == "Event" {
			events = append(events, i)
		}
	}
	slices.SortFunc(events, func(a, b int) int { return strings.Compare(lastSeen(items[a]), lastSeen(items[b])) })
	drop := map[int]bool{}
	for _, i := range events {
		if total <= limit {
			break
		}
		drop[i] = true
		total -= sizes[i]
	}
	if total > limit {
		return nil, 0, fmt.Errorf(
			"the dump would have %d bytes without any event, and --max-size allows %d; give -n for one namespace, or "+
				"a larger size",
			total,
			limit,
		)
	}
	for i, item := range items {
		if !drop[i] {
			kept = append(kept, item)
		}
	}
	return kept, len(drop), nil
}

// lastSeen returns when an event was seen last, as text that sorts by time.
func lastSeen(event map[string]any) string {
	for _, field := range []string{"lastTimestamp", "eventTime"} {
		if text, ok := event[field].(string); ok && text != "" {
			return text
		}
	}
	return ""
}

// clusterRole is the role that explain and dump need.
func clusterRole() string {
	var b strings.Builder
	b.WriteString(
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: purser-explain\nrules:\n",
	)
	for _, rule := range inventory.Rules() {
		fmt.Fprintf(&b, "- apiGroups: [%q]\n  resources: [%s]\n  verbs: [list]\n", rule.Group, rule.Resource)
	}
	return b.String()
}
