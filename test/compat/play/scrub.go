package play

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/test/compat/record"
)

// Scrub removes everything of the scenario, with force, and returns when it is gone: the next one
// of its lane must not meet it.
func (p *Player) Scrub(ctx context.Context) error {
	for {
		changed := p.stage.Recorder.Changed(p.play.Name)
		left := p.stage.Recorder.Objects(p.play.Name)
		if len(left) == 0 {
			return nil
		}
		for _, c := range left {
			if err := p.force(ctx, c); err != nil {
				return fmt.Errorf("scrub %s %s: %w", c.Kind.Name, c.Object.GetName(), err)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (p *Player) force(ctx context.Context, c record.Change) error {
	name, now := c.Object.GetName(), int64(0)
	err := p.of(c.Kind).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err == nil {
		_, err = p.of(c.Kind).
			Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
