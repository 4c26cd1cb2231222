package grow

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rules "github.com/purser-csi/purser/internal/daytwo/rules"
)

// Config says which StatefulSet gets which size.
type Config struct {
	Client         client.Client
	Namespace, Set string
	Template       string // empty for the only one
	Size           resource.Quantity
	EvenIfOwned    bool
	Timeout        time.Duration // of the expansion of all claims, and of the replacement
	// FilesystemTimeout is how long the filesystems of mounted volumes may take after that.
	FilesystemTimeout time.Duration
	Poll              time.Duration // between two looks at what is waited for
	Progress          func(format string, args ...any)
}

// Gather reads what the plan is made from.
func Gather(ctx context.Context, cfg Config) (rules.GrowInput, error) {
	in := rules.GrowInput{
		Set: &appsv1.StatefulSet{}, Template: cfg.Template, Size: cfg.Size, EvenIfOwned: cfg.EvenIfOwned,
		Volumes: map[string]*corev1.PersistentVolume{}, Classes: map[string]*storagev1.StorageClass{},
		Drivers: map[string]bool{},
	}
	if err := cfg.Client.Get(ctx, client.ObjectKey{Namespace: cfg.Namespace, Name: cfg.Set}, in.Set); err != nil {
		return in, fmt.Errorf("sts/%s -n %s: %w", cfg.Set, cfg.Namespace, err)
	}
	var claims corev1.PersistentVolumeClaimList
	var pods corev1.PodList
	var quotas corev1.ResourceQuotaList
	var volumes corev1.PersistentVolumeList
	var classes storagev1.StorageClassList
	var drivers storagev1.CSIDriverList
	var leases coordinationv1.LeaseList
	own := client.InNamespace(cfg.Namespace)
	for _, list := range []struct {
		what string
		into client.ObjectList
		opts []client.ListOption
	}{
		{"PersistentVolumeClaims", &claims, []client.ListOption{own}},
		{"Pods", &pods, []client.ListOption{own}},
		{"ResourceQuotas", &quotas, []client.ListOption{own}},
		{"PersistentVolumes", &volumes, nil},
		{"StorageClasses", &classes, nil},
		{"CSIDrivers", &drivers, nil},
	} {
		if err := cfg.Client.List(ctx, list.into, list.opts...); err != nil {
			return in, fmt.Errorf(
				"list %s, without which it is not known whether the claims can grow: %w", list.what, err,
			)
		}
	}
	in.Claims, in.Pods, in.Quotas = claims.Items, pods.Items, quotas.Items
	for i := range volumes.Items {
		in.Volumes[volumes.Items[i].Name] = &volumes.Items[i]
	}
	for i := range classes.Items {
		in.Classes[classes.Items[i].Name] = &classes.Items[i]
	}
	for i := range drivers.Items {
		in.Drivers[drivers.Items[i].Name] = true
	}
	if err := cfg.Client.List(ctx, &leases); err == nil { // without the permission the plan does not speak of them
		in.Leases = []string{}
		for i := range leases.Items {
			in.Leases = append(in.Leases, leases.Items[i].Name)
		}
	}
	return in, nil
}

// Try has the API server check the larger claims and the new StatefulSet without writing them:
// quotas, webhooks and policies refuse here what they would refuse later. It returns the refusals.
func Try(ctx context.Context, cfg Config, plan rules.GrowPlan, set *appsv1.StatefulSet) (refused []string, err error) {
	for _, c := range plan.Claims {
		if c.To == "" {
			continue
		}
		err := cfg.ask(ctx, c.Name, client.DryRunAll)
		if text, isRefused := refusal(err); isRefused {
			refused = append(refused, fmt.Sprintf("the API server refuses the larger pvc/%s: %s", c.Name, text))
		} else if err != nil {
			return refused, err
		}
	}
	if !plan.Replace {
		return refused, nil
	}
	// The name is taken, so the trial has another one.
	trial := rules.Replacement(set, plan.Template, cfg.Size)
	trial.Name = trial.Name[:min(len(trial.Name), mostTrial)] + trialSuffix
	err = cfg.Client.Create(ctx, trial, client.DryRunAll)
	if text, isRefused := refusal(err); isRefused {
		return append(refused, "the API server refuses the new StatefulSet: "+text), nil
	}
	return refused, err
}

const (
	trialSuffix = "-trial"
	mostTrial   = 46 // so that names of pods are not longer than with the name that is replaced
)

// refusal returns the text of an error by which the API server refuses an object for good.
func refusal(err error) (string, bool) {
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err) {
		return err.Error(), true
	}
	return "", false
}
