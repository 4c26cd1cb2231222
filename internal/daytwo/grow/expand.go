package grow

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rules "github.com/purser-csi/purser/internal/daytwo/rules"
)

// ask asks for the size of one claim.
func (cfg Config) ask(ctx context.Context, claim string, opts ...client.PatchOption) error {
	patch := fmt.Sprintf(`{"spec":{"resources":{"requests":{"storage":%q}}}}`, cfg.Size.String())
	o := &corev1.PersistentVolumeClaim{}
	o.Namespace, o.Name = cfg.Namespace, claim
	if err := cfg.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(patch)), opts...); err != nil {
		return fmt.Errorf("pvc/%s: %w", claim, err)
	}
	return nil
}

// Expand asks for the size of all claims of the plan, and waits until each volume has it.
func Expand(ctx context.Context, cfg Config, plan rules.GrowPlan) error {
	for _, c := range plan.Claims {
		if c.To == "" {
			continue
		}
		if err := cfg.ask(ctx, c.Name); err != nil {
			return fmt.Errorf("%w; the StatefulSet is as before", err)
		}
		cfg.Progress("asked for %s for pvc/%s", c.To, c.Name)
	}
	_, err := cfg.await(ctx, plan, func(g rules.Growth) bool { return g.VolumeDone })
	if err != nil {
		return fmt.Errorf("%w; the StatefulSet is as before; repeat the command to go on", err)
	}
	return nil
}

// Filesystems waits for some time until the filesystems of claims in use have the size, and returns
// the claims for which a pod must be started anew: not every driver and kernel expands what is
// mounted.
func Filesystems(ctx context.Context, cfg Config, plan rules.GrowPlan) (left []string) {
	cfg.Timeout = cfg.FilesystemTimeout
	waiting, err := cfg.await(ctx, plan, func(g rules.Growth) bool { return g.Done })
	if err == nil {
		return nil
	}
	for _, c := range plan.Claims {
		if text, isWaiting := waiting[c.Name]; isWaiting {
			left = append(left, fmt.Sprintf(
				"pvc/%s: %s; if it stays so, delete pod/%s, which is made again", c.Name, text, c.Pod,
			))
		}
	}
	return left
}

// await waits until all claims that are expanded are done, and returns what the others wait for.
func (cfg Config) await(
	ctx context.Context, plan rules.GrowPlan, isDone func(rules.Growth) bool,
) (waiting map[string]string, err error) {
	waiting = map[string]string{}
	for _, c := range plan.Claims {
		if c.To != "" {
			waiting[c.Name] = ""
		}
	}
	return waiting, cfg.until(ctx, func(ctx context.Context) (left string, err error) {
		for _, c := range plan.Claims {
			last, isWaiting := waiting[c.Name]
			if !isWaiting {
				continue
			}
			growth, err := cfg.growth(ctx, c.Name, c.Pod != "")
			if err != nil {
				return "", err
			}
			text := fmt.Sprintf("pvc/%s: %s", c.Name, growth.Text)
			if growth.Text != last {
				cfg.Progress("%s", text)
				waiting[c.Name] = growth.Text
			}
			switch {
			case growth.Failed:
				return "", stopped{errors.New(text)}
			case isDone(growth):
				delete(waiting, c.Name)
			default:
				left = text
			}
		}
		return left, nil
	})
}

func (cfg Config) growth(ctx context.Context, name string, inUse bool) (rules.Growth, error) {
	var claim corev1.PersistentVolumeClaim
	if err := cfg.Client.Get(ctx, client.ObjectKey{Namespace: cfg.Namespace, Name: name}, &claim); err != nil {
		return rules.Growth{}, fmt.Errorf("pvc/%s: %w", name, err)
	}
	volume := &corev1.PersistentVolume{}
	if err := cfg.Client.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume); err != nil {
		return rules.Growth{}, fmt.Errorf("pv/%s: %w", claim.Spec.VolumeName, err)
	}
	return rules.GrowthOf(&claim, volume, cfg.Size, inUse), nil
}

// stopped is an error that waiting does not change.
type stopped struct{ error }

// until waits until missing returns an empty text. An error of one look does not end it, unless it
// is stopped.
func (cfg Config) until(ctx context.Context, missing func(context.Context) (string, error)) error {
	ctx, stop := context.WithTimeout(ctx, cfg.Timeout)
	defer stop()
	ticker := time.NewTicker(cfg.Poll)
	defer ticker.Stop()
	last := ""
	for {
		left, err := missing(ctx)
		switch {
		case err == nil && left == "":
			return nil
		case errors.As(err, new(stopped)):
			return err
		case err == nil:
			last = left
		case ctx.Err() == nil:
			last = err.Error()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("not done within %s: %s", cfg.Timeout, last)
			}
			return ctx.Err()
		}
	}
}
