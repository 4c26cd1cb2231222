package snapshot

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/reconcile"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// Gather implements reconcile.Task.
func (c *ContentController[C, L]) Gather(ctx context.Context, name string) (s rules.ContentState[C, L], err error) {
	content, err := get[C](ctx, c.Cached, types.NamespacedName{Name: name})
	if err != nil || content == nil {
		return s, err
	}
	if s, err = gatherContent[C, L](ctx, c.Cached, marked(c.Together, content), c.ContentSettings); err != nil {
		return s, err
	}
	if s.Recorded, err = c.isRecorded(ctx, content.GetUID()); err != nil {
		return s, err
	}
	known := c.memory.of(content.GetUID())
	s.Asked = known.asked
	retry := c.retries.Get(name)
	if retry.Inputs == inputs(s) {
		s.NotBefore = retry.NotBefore
	}
	if content.GetDeletionTimestamp() != nil && known.callsEnd.After(s.NotBefore) {
		s.NotBefore = known.callsEnd // a call of a previous leader would make a deleted snapshot again
	}
	if known.removable && retry.Failed == 0 {
		s.Sharing, err = c.sharing.cached(ctx, content)
	}
	return s, err
}

// Read implements reconcile.Reader.
func (c *ContentController[C, L]) Read(
	ctx context.Context, s rules.ContentState[C, L], refs []verdict.Ref,
) (rules.ContentState[C, L], error) {
	again := c.retries.Get(s.Content.GetName()).Failed > 0
	sharing, err := c.sharing.live(ctx, s.Content, refs[0].Name, again)
	if err == nil {
		s.Sharing = sharing
	}
	return s, err
}

// Decide implements reconcile.Task.
func (c *ContentController[C, L]) Decide(s rules.ContentState[C, L], now time.Time) rules.ContentVerdict {
	return rules.DecideContent(s, now)
}

// About implements reconcile.Task.
func (c *ContentController[C, L]) About(name string, s rules.ContentState[C, L]) reconcile.About {
	about := reconcile.About{Log: []any{c.logKey, name}, Inputs: func() string { return inputs(s) }}
	if s.Content != nil {
		about.Object, about.Users = s.Content, []runtime.Object{userOf(s.Content)}
	}
	return about
}

// Apply implements reconcile.Task.
func (c *ContentController[C, L]) Apply(
	ctx context.Context, s rules.ContentState[C, L], action rules.ContentAction,
) (rules.ContentVerdict, error) {
	switch a := action.(type) {
	case rules.ClearCreating:
		_, err := c.annotate(ctx, s.Content, a.Annotation, nil)
		return nil, err
	case rules.MarkCreating:
		return nil, c.markRecorded(ctx, s.Content, a.Annotation)
	case rules.ResolveCall:
		return nil, c.Journal.Resolve(ctx, s.Content.GetUID())
	case rules.WriteContentStatus:
		return nil, c.writeStatus(ctx, s.Content, a.Status.SetOn)
	case rules.ReleaseContent:
		return nil, c.release(ctx, s.Content, a.Finalizer)
	case rules.CreateSnapshot:
		answer, failure, err := c.create(ctx, s.Content, a)
		if err != nil {
			return nil, err
		}
		c.memory.answered(s.Content.GetUID(), answer, c.Clock.Now())
		if s.Recorded, err = c.isRecorded(ctx, s.Content.GetUID()); err != nil {
			return nil, err
		}
		return rules.AfterCreate(s, answer, failure, c.Clock.Now()), nil
	case rules.FindSnapshot:
		answer, failure, err := c.find(ctx, a)
		if err != nil {
			return nil, err
		}
		c.memory.answered(s.Content.GetUID(), answer, c.Clock.Now())
		return rules.AfterFind(s, answer, failure, c.Clock.Now()), nil
	case rules.DeleteSnapshot:
		failure, err := c.remove(ctx, a)
		if err != nil {
			return nil, err
		}
		return rules.AfterDelete(s, failure), nil
	}
	return nil, fmt.Errorf("unknown action %T", action)
}

// inputs is what a failed attempt for a content was made from: with another class, or to delete, the
// next attempt is due at once.
func inputs[C contents, L classes](s rules.ContentState[C, L]) string {
	if s.Content == nil {
		return ""
	}
	version := ""
	if s.Class != nil {
		version = s.Class.GetResourceVersion()
	}
	return fmt.Sprintf("%s/%s/%t", s.Content.GetUID(), version, s.Content.GetDeletionTimestamp() != nil)
}
