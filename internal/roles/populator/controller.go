package populator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/populate"
	"github.com/purser-csi/purser/internal/populate/httpsource"
	"github.com/purser-csi/purser/internal/populate/pod"
	rules "github.com/purser-csi/purser/internal/populate/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/internal/roles/sidecar"
	"github.com/purser-csi/purser/internal/telemetry"
)

// The name of the role, and of its lease. The source of its events is upstream's (VP-13).
const (
	Name  = "populator"
	lease = "purser-populator-http"
)

// kindHTTP is the only kind of populator.
const kindHTTP = "http"

// Populator is the controller of a populator. It calls no driver.
type Populator struct {
	sidecar.Common

	Kind           string // argument of the command
	Namespace      string // of the prime claims and pods; empty for the process's own
	Image          string
	CrossNamespace bool
	AllowLocal     bool
	PodRetryStart  time.Duration
	PodRetryMax    time.Duration
}

// New returns the role with the default of every setting.
func New() *Populator {
	p := &Populator{Kind: kindHTTP}
	p.Common = sidecar.NewCommon(sidecar.Kind{
		Name: Name, LeasePrefix: lease, EventsPrefix: httpsource.Prefix + "-populator", NoDriver: true,
		WorkersFlag: "worker-threads", Table: p.table,
	})
	p.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return p
}

// Command returns the command populator.
func Command(program cli.Program) *cobra.Command {
	p := New()
	p.Version, p.Kind = program.Version, ""
	return cli.NewRoleCommand(program, p, &cobra.Command{
		Use:   "populator http",
		Short: "Fill the volumes of claims whose source is an HTTPSource",
		Long: `Fill the volumes of claims whose spec.dataSourceRef is an HTTPSource, from an
http or https URL or from a layer of an OCI image.

The volume is made for a claim in the populator's namespace first, a pod there
writes the data, and then the volume is given to the claim of the user. One
works in a cluster. It starts to work when the cluster has the custom resource,
deploy/optional/populator-http.yaml.`,
		Example: `  purser populator http --image-name registry.example.com/purser:v1`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.NoArguments(c, args[1:])
			}
			p.Kind = cmp.Or(append(args, "")...)
			return nil
		},
	})
}

// AddFlags binds every setting to its flag. Those that upstream's populators have are called so (VP-1).
func (p *Populator) AddFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Populator", func(f *pflag.FlagSet) {
		f.StringVar(&p.Image, "image-name", "", "`image` of Purser for the pods that write the data; necessary")
		f.StringVar(&p.Namespace, "namespace", "",
			"`namespace` in which volumes are made and filled; empty for the pod's own")
		f.BoolVar(&p.CrossNamespace, "cross-namespace", false,
			"serve sources in other namespaces than the claim's, if a ReferenceGrant there allows it")
		f.BoolVar(&p.AllowLocal, "allow-local-addresses", false,
			"have the pods connect to loopback and link-local addresses and to the metadata services of clouds too")
		f.DurationVar(&p.PodRetryStart, "pod-retry-start", 10*time.Second,
			"how long a failed pod is kept before the next one; it doubles with each further failure")
		f.DurationVar(&p.PodRetryMax, "pod-retry-max", 10*time.Minute, "longest time that a failed pod is kept")
	})
	p.AddCommonFlags(f)
}

// Validate implements cli.Role.
func (p *Populator) Validate() error {
	return errors.Join(
		cli.Need(p.Kind == kindHTTP, "the kind of populator %q: must be http, as in `purser populator http`", p.Kind),
		cli.Need(p.Image != "", "--image-name=%q: must be the image of Purser for the pods", p.Image),
		cli.Need(p.Namespace == "" || len(validation.IsDNS1123Label(p.Namespace)) == 0,
			"--namespace=%q: must be the name of a namespace", p.Namespace),
		cli.Need(p.PodRetryStart > 0, "--pod-retry-start=%s: must be more than 0", p.PodRetryStart),
		cli.Need(p.PodRetryMax >= p.PodRetryStart,
			"--pod-retry-max=%s: must not be less than --pod-retry-start=%s", p.PodRetryMax, p.PodRetryStart),
		p.ValidateCommon(),
	)
}

// namespace returns the namespace of the prime claims and pods.
func (p *Populator) namespace() string {
	return cmp.Or(p.Namespace, (&process.Election{}).LeaseNamespace())
}

// Role returns the role. Its cache has the pods of the populator's namespace alone.
func (p *Populator) Role() sidecar.Role {
	role := p.Common.Role()
	role.NewCache = func(api *rest.Config, options ctrlcache.Options) (ctrlcache.Cache, error) {
		if options.ByObject == nil {
			options.ByObject = map[client.Object]ctrlcache.ByObject{}
		}
		options.ByObject[&corev1.Pod{}] = ctrlcache.ByObject{
			Namespaces: map[string]ctrlcache.Config{p.namespace(): {}},
		}
		return ctrlcache.New(api, options)
	}
	return role
}

// Run works until ctx ends or the lease is lost.
func (p *Populator) Run(ctx context.Context) error { return sidecar.Run(ctx, &p.Config, p.Role()) }

// settings returns those of the rules.
func (p *Populator) settings() rules.Settings {
	return rules.Settings{
		Namespace: p.namespace(), Prefix: httpsource.Prefix, Kind: httpsource.Kind.GroupKind(),
		CrossNamespace: p.CrossNamespace, RetryFirst: p.PodRetryStart, RetryMost: p.PodRetryMax,
	}
}

// table lists the controller (VP-15, without what is not needed in all namespaces).
func (p *Populator) table(_ context.Context, run *sidecar.Sidecar) ([]registry.Controller, error) {
	own := p.namespace()
	return []registry.Controller{{
		Name: populate.Name, Needs: []schema.GroupVersionKind{httpsource.Kind}, Late: true,
		Absent: fmt.Sprintf("the API server does not serve %s; waiting for the custom resource of "+
			"deploy/optional/populator-http.yaml, and filling no volume until then", httpsource.Kind.Kind),
		Grants: []registry.Grant{
			registry.Allow("", "persistentvolumeclaims", "get", "list", "watch", "patch"),
			registry.Allow("", "persistentvolumes", "get", "list", "watch", "patch"),
			registry.Allow(storagev1.GroupName, "storageclasses", registry.Read...),
			registry.Allow(httpsource.Kind.Group, "httpsources", registry.Read...),
			registry.Allow(names.GatewayGroup, "referencegrants", "list").
				If(p.CrossNamespace, "with --cross-namespace"),
			registry.Allow("", "persistentvolumeclaims", "create", "delete").In(own),
			registry.Allow("", "pods", "get", "list", "watch", "create", "delete").In(own),
		},
		Fields: p.fields(),
		Add: func(ctx context.Context, settings reconcile.Settings) error {
			return populate.New(populate.Config{
				Settings: settings, Rules: p.settings(), Populator: httpsource.Populator(p.AllowLocal), Image: p.Image,
				Cached: run.Cached, Sources: run.Manager.GetCache(), Live: run.Manager.GetAPIReader(),
				Writer: run.Writer, Progress: pod.ReadProgress, Metrics: telemetry.NewPopulating(run.Registry),
			}).AddTo(ctx, run.Manager)
		},
	}}, nil
}

// fields are what is read of claims and volumes: of claims without a source only that they exist.
func (p *Populator) fields() []*kube.Fields {
	s := p.settings()
	return []*kube.Fields{
		kube.Reads(func(from, to *corev1.PersistentVolumeClaim) {
			if from.Spec.DataSourceRef == nil && from.Labels[s.Label()] == "" {
				return
			}
			to.Labels, to.Finalizers, to.CreationTimestamp = from.Labels, from.Finalizers, from.CreationTimestamp
			to.Spec, to.Status = from.Spec, from.Status
		}, names.AnnSelectedNode, names.AnnMigratedTo, names.AnnBetaStorageClass,
			s.ClaimAnnotation(), s.NodeAnnotation(), s.AttemptsAnnotation()),
		kube.Reads(func(from, to *corev1.PersistentVolume) {
			to.Spec.ClaimRef, to.Status.Phase = from.Spec.ClaimRef, from.Status.Phase
		}, s.PopulatedFrom()),
	}
}
