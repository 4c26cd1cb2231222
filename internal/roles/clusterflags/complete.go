package clusterflags

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
)

// patience bounds the requests for one completion: the user waits at the prompt.
const patience = 3 * time.Second

// mostNames bounds the names that one completion reads. More are of no use at a prompt.
const mostNames = 1000

// Completion is what a shell offers: values, and what it does with them.
type Completion = cobra.CompletionFunc

// CompleteFlags registers the completion of the flags that [Flags.Add] has bound.
func (c *Flags) CompleteFlags(command *cobra.Command) {
	for flag, values := range map[string]Completion{
		"namespace": c.Names(corev1.SchemeGroupVersion.WithKind("Namespace")), "context": c.contexts,
	} {
		_ = command.RegisterFlagCompletionFunc(flag, values) // fails where Add has not bound the flag
	}
}

// contexts completes the contexts of the kubeconfig.
func (c *Flags) contexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	config, err := c.loader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

// Names completes the names of objects of a kind; of a kind with namespaces, those of the namespace
// that the flags select.
func (c *Flags) Names(kind schema.GroupVersionKind) Completion {
	return func(command *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		names, err := c.ListNames(command.Context(), kind, typed)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// ListNames returns the names of objects of a kind that begin with a prefix. It reads metadata
// alone.
func (c *Flags) ListNames(ctx context.Context, kind schema.GroupVersionKind, prefix string) ([]string, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	config, namespace, err := c.Config("purser-completion")
	if err != nil {
		return nil, err
	}
	reader, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	if err != nil {
		return nil, err
	}
	if c.Namespace != "" {
		namespace = c.Namespace
	}
	isNamespaced, err := reader.IsObjectNamespaced(partial(kind))
	if err != nil {
		return nil, err
	}
	opts := []client.ListOption{client.Limit(mostNames)}
	if isNamespaced {
		opts = append(opts, client.InNamespace(namespace))
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := reader.List(ctx, list, opts...); err != nil {
		return nil, err
	}
	var names []string
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, prefix) {
			names = append(names, list.Items[i].Name)
		}
	}
	return names, nil
}

func partial(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(kind)
	return o
}

// CompleteValues registers the values that a flag takes.
func CompleteValues(command *cobra.Command, flag string, values ...string) {
	_ = command.RegisterFlagCompletionFunc( // fails for an unknown flag: the caller has bound it
		flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp),
	)
}
