package sim

import (
	"context"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
	provisioning "github.com/purser-csi/purser/internal/provision"
)

// brokenJournal replaces methods of the journal.
type brokenJournal struct {
	provisioning.Journal
	record func(context.Context, intent.Entry) error
}

func (j brokenJournal) Record(ctx context.Context, e intent.Entry) error { return j.record(ctx, e) }

type resolvesNever struct{ provisioning.Journal }

func (resolvesNever) Resolve(context.Context, types.UID) error { return nil }

// unheld does not check whether the process still holds the journal.
type unheld struct{ provisioning.Journal }

func (unheld) Hold(ctx context.Context, _ types.UID) (context.Context, context.CancelFunc, error) {
	bounded, cancel := context.WithCancel(ctx)
	return bounded, cancel, nil
}

type repeatsAnother struct{ provisioning.Journal }

func (j repeatsAnother) Pending(claim types.UID) (intent.Entry, bool) {
	e, ok := j.Journal.Pending(claim)
	if ok {
		e.Request = proto.Clone(e.Request).(*csi.CreateVolumeRequest)
		e.Request.Parameters = map[string]string{"of": "the class as it is now"}
		e.Replaced = nil
	}
	return e, ok
}

// forgetsRefused resolves an entry after a final error, even if an earlier call had an uncertain
// outcome.
type forgetsRefused struct{ provisioning.Journal }

func (j forgetsRefused) Note(claim types.UID, _ intent.Known) {
	_ = j.Resolve(context.Background(), claim)
}

// forgetsFormer keeps only the last request for a claim, and drops earlier ones.
type forgetsFormer struct{ provisioning.Journal }

func (j forgetsFormer) Pending(claim types.UID) (intent.Entry, bool) {
	e, ok := j.Journal.Pending(claim)
	e.Replaced = nil
	return e, ok
}

// hasty deletes without waiting for calls of a previous leader.
type hasty struct{ provisioning.Journal }

func (hasty) CallsEnd(string, types.UID) time.Time { return time.Time{} }

// forgetsRepeated writes the journal as if each request had been sent once.
func forgetsRepeated(ctx context.Context, c client.Client, o client.Object) error {
	if text := o.GetAnnotations()[names.AnnIntentsRepeated]; text != "" {
		o.GetAnnotations()[names.AnnIntentsRepeated] = ""
	}
	return c.Update(ctx, o)
}

// waits returns the journal of the reclaim controller.
func (m mutant) waits(j provisioning.Journal) provisioning.Journal {
	if m.hasty {
		return hasty{j}
	}
	return j
}

// unannounced deletes a volume without a mark in its journal entry.
type unannounced struct{ provisioning.Journal }

func (unannounced) Discard(context.Context, types.UID, string) error { return nil }

// forgetsHandles knows only the handles that its own process has noted.
type forgetsHandles struct {
	provisioning.Journal
	own *sync.Map // handles by claim
}

func (j forgetsHandles) Discard(ctx context.Context, claim types.UID, handle string) error {
	j.own.Store(claim, handle)
	return j.Journal.Discard(ctx, claim, handle)
}

func (j forgetsHandles) Note(claim types.UID, known intent.Known) {
	j.own.Store(claim, known.Handle)
	j.Journal.Note(claim, known)
}

func (j forgetsHandles) Pending(claim types.UID) (intent.Entry, bool) {
	e, ok := j.Journal.Pending(claim)
	if own, _ := j.own.Load(claim); own != e.Known.Handle {
		e.Known.Handle = ""
	}
	return e, ok
}
