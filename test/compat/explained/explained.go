package explained

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/explain/inventory"
	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/verdict"
	"github.com/purser-csi/purser/test/compat/record"
	"github.com/purser-csi/purser/test/explain/properties"
)

// Changes returns what is wrong with the answers about the objects that the changes of a scenario
// leave, and which advice the API server with these objects refuses.
func Changes(ctx context.Context, server properties.Server, changes []record.Change) []string {
	cluster, err := left(changes)
	if err != nil {
		return []string{"explain: " + err.Error()}
	}
	return problems(ctx, server, cluster)
}

// left returns the objects that the changes of a scenario leave.
func left(changes []record.Change) (*explain.Cluster, error) {
	last := map[record.Key]record.Change{}
	for _, c := range changes {
		last[record.Key{Kind: c.Kind.Name, Namespace: c.Object.GetNamespace(), Name: c.Object.GetName()}] = c
	}
	builder := inventory.NewBuilder(time.Time{})
	now := time.Time{}
	for _, c := range last {
		if c.Seen.After(now) {
			now = c.Seen
		}
		if c.Gone {
			continue
		}
		typed, err := inventory.Scheme().New(c.Kind.Version)
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(c.Object.Object, typed)
		}
		object, ok := typed.(client.Object)
		if err != nil || !ok {
			return nil, fmt.Errorf("%s %s: %w", c.Kind.Name, c.Object.GetName(), err)
		}
		builder.Add(object)
	}
	builder.SetNow(now)
	return builder.Cluster(), nil
}

// Live returns what is wrong with the answers about all objects of an API server, and which advice
// it refuses.
func Live(ctx context.Context, server properties.Server, reader client.Reader) ([]string, error) {
	cluster, err := inventory.Read(ctx, reader, "", time.Now())
	if err != nil {
		return nil, err
	}
	return problems(ctx, server, cluster), nil
}

// problems asks about each object.
func problems(ctx context.Context, server properties.Server, c *explain.Cluster) (all []string) {
	for _, text := range properties.Of(c) {
		all = append(all, "explain "+text)
	}
	if server.Kubectl != "" {
		for _, text := range server.Refused(ctx, c) {
			all = append(all, "the API server refuses advice for "+text)
		}
	}
	for _, ref := range refs(c) {
		report := c.Explain(ref)
		for _, text := range missing(report) {
			all = append(all, fmt.Sprintf("explain %s: %s", ref, text))
		}
	}
	for _, claim := range c.Claims {
		ref := explain.Ref{Kind: explain.Claim, Namespace: claim.Namespace, Name: claim.Name}
		settled := claim.Status.Phase == corev1.ClaimBound && claim.DeletionTimestamp == nil
		if c.Explain(ref).State == explain.Well && !settled {
			all = append(all, fmt.Sprintf("explain %s: it is said to be well, and is %s", ref, claim.Status.Phase))
		}
	}
	slices.Sort(all)
	return all
}

// missing returns what an answer does not say.
func missing(r explain.Report) (all []string) {
	switch {
	case r.State == explain.Unknown:
		return []string{"cannot tell: " + r.Summary}
	case r.Summary == "":
		all = append(all, "no summary")
	case r.State == explain.Stuck && len(r.Findings) == 0:
		all = append(all, "stuck without a finding")
	}
	for _, f := range r.Findings {
		switch {
		case f.WaitsFor == "" || f.Actor == "":
			all = append(all, fmt.Sprintf("%s does not say what it waits for, or who has to act", f.Reason))
		case !verdict.IsDocumented(f.Reason):
			all = append(all, fmt.Sprintf("the reason %q has no section in docs/reasons.md", f.Reason))
		case f.Actor != explain.Itself && len(f.Fix) == 0:
			all = append(all, fmt.Sprintf("%s has to be mended by the %s, and does not say how", f.Reason, f.Actor))
		}
	}
	return all
}

// refs are all objects that explain takes, but for namespaces.
func refs(c *explain.Cluster) []explain.Ref {
	return slices.Concat(
		of(explain.Claim, c.Claims), of(explain.Volume, c.Volumes), of(explain.Pod, c.Pods),
		of(explain.Attachment, c.Attachments), of(explain.Snapshot, c.Snapshots), of(explain.Class, c.Classes),
		of(explain.Node, c.Nodes), of(explain.Content, c.Contents), of(explain.GroupSnapshot, c.GroupSnapshots),
		of(explain.GroupContent, c.GroupContents), of(explain.AttributesClass, c.AttributesClasses),
	)
}

func of[T client.Object](kind explain.Kind, list []T) (all []explain.Ref) {
	for _, o := range list {
		all = append(all, explain.Ref{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()})
	}
	return all
}
