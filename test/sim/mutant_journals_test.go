package sim

import (
	"context"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	provisioning "github.com/purser-csi/purser/internal/controllers/provision"
	"github.com/purser-csi/purser/internal/core/intent"
)

// brokenJournal records in its own way.
type brokenJournal struct {
	provisioning.Journal
	record func(context.Context, intent.Entry) error
}

func (j brokenJournal) Record(ctx context.Context, e intent.Entry) error { return j.record(ctx, e) }

type settlesNever struct{ provisioning.Journal }

func (settlesNever) Resolve(context.Context, types.UID) error { return nil }

// unheld does not ask whether the journal is still ours.
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

// forgetsRefused settles what the driver has refused, whatever was called before.
type forgetsRefused struct{ provisioning.Journal }

func (j forgetsRefused) Note(claim types.UID, _ intent.Known) {
	_ = j.Resolve(context.Background(), claim)
}

// forgetsFormer knows of one request for a claim, whatever was asked for before.
type forgetsFormer struct{ provisioning.Journal }

func (j forgetsFormer) Pending(claim types.UID) (intent.Entry, bool) {
	e, ok := j.Journal.Pending(claim)
	e.Replaced = nil
	return e, ok
}

// hasty knows of no calls of a previous leader when it deletes.
type hasty struct{ provisioning.Journal }

func (hasty) CallsEnd(string) time.Time { return time.Time{} }

// waits is the journal that the reclaim controller asks.
func (m mutant) waits(j provisioning.Journal) provisioning.Journal {
	if m.hasty {
		return hasty{j}
	}
	return j
}

// unannounced deletes a volume of a live claim without a word in the journal.
type unannounced struct{ provisioning.Journal }

func (unannounced) Discard(context.Context, types.UID) error { return nil }
