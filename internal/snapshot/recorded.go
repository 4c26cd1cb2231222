package snapshot

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"
)

// Journal has an entry for each CreateSnapshot call whose outcome is not known, by the uid of the content.
// An entry is written before the call, and resolved when the status of the content has the outcome, or the
// content the annotation volumesnapshot-being-created.
//
//nolint:interfacebloat // the journal is one component: the sidecar needs all of it
type Journal interface {
	// Wait returns when the journal has been taken over.
	Wait(ctx context.Context) error
	// Record returns when the entry is written.
	Record(ctx context.Context, e intent.Entry) error
	// Hold returns a context for one call for a content with an entry. It is cancelled before another leader
	// may repeat the call.
	Hold(ctx context.Context, content types.UID) (bounded context.Context, cancel context.CancelFunc, err error)
	// Resolve removes the entry of a content, if there is one.
	Resolve(ctx context.Context, content types.UID) error
	// Done says that the run which called the driver has ended.
	Done(content types.UID)
	// Pending returns the entry of a content.
	Pending(content types.UID) (intent.Entry, bool)
	// Entries returns all entries.
	Entries() []intent.Entry
}

// record writes the entry of a call, and returns a context that ends before another leader repeats it.
func (c *ContentController[C, L]) record(
	ctx context.Context, content client.Object, a rules.CreateSnapshot,
) (context.Context, context.CancelFunc, error) {
	uid := content.GetUID()
	c.calls.Store(content.GetName(), uid)
	if err := c.Journal.Record(ctx, entryOf(content, a.Name)); err != nil {
		return nil, nil, fmt.Errorf("record the call for %s: %w", describe(content), err)
	}
	return c.Journal.Hold(ctx, uid)
}

// entryOf returns the entry for a content. The call is made again from the content and its class, so that
// only the names are recorded.
func entryOf(content client.Object, snapshot string) intent.Entry {
	return intent.Entry{
		Claim: client.ObjectKeyFromObject(content), UID: content.GetUID(), VolumeName: snapshot,
		Request: &csi.CreateVolumeRequest{Name: snapshot},
	}
}

// isRecorded reports whether the journal has a call for a content.
func (c *SidecarConfig) isRecorded(ctx context.Context, content types.UID) (bool, error) {
	if c.Journal == nil {
		return false, nil
	}
	if err := c.Journal.Wait(ctx); err != nil {
		return false, err
	}
	_, recorded := c.Journal.Pending(content)
	return recorded, nil
}

// markRecorded has the annotation of a content take the place of its entry.
func (c *ContentController[C, L]) markRecorded(ctx context.Context, content C, annotation string) error {
	entry, _ := c.Journal.Pending(content.GetUID())
	c.memory.set(content.GetUID(), func(k *known) { k.callsEnd = entry.CallsEnd })
	if _, err := c.annotate(ctx, content, annotation, new("yes")); err != nil {
		return err
	}
	return c.Journal.Resolve(ctx, content.GetUID())
}

// endCall ends a run: the process may end, as far as its call is concerned.
func (c *ContentController[C, L]) endCall(name string) {
	if uid, called := c.calls.LoadAndDelete(name); called {
		c.Journal.Done(uid.(types.UID))
	}
}

// contentGone drops what is known of a content that does not exist any more.
func (c *ContentController[C, L]) contentGone(uid types.UID) {
	c.Together.SetDeleting(uid, false)
	if c.Journal != nil {
		_ = c.Journal.Resolve(context.Background(), uid) // in memory; the next write removes it
	}
}

// fromJournal resolves the entries of a previous leader whose contents are gone. Each other one is resolved
// by the run for its content.
//
//nolint:unparam // a source returns an error
func (c *ContentController[C, L]) fromJournal(ctx context.Context, q contentQueue) error {
	if c.Journal == nil {
		return nil
	}
	go func() {
		if c.Journal.Wait(ctx) != nil {
			return
		}
		for _, e := range c.Journal.Entries() {
			content, err := get[C](ctx, c.Cached, types.NamespacedName{Name: e.Claim.Name})
			if err == nil && (content == nil || content.GetUID() != e.UID) {
				c.contentGone(e.UID)
				continue
			}
			q.Add(e.Claim.Name)
		}
	}()
	return nil
}
