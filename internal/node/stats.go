package node

import (
	"context"
	"maps"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mounting "github.com/purser-csi/purser/internal/node/rules"
	"github.com/purser-csi/purser/internal/telemetry"
)

// stats asks the drivers how full the published volumes are: once for each claim in an interval
// (5.11). The volumes of one driver are asked for one after the other, those of several drivers side
// by side, and a driver that still has the questions of the last interval gets none. It is safe for
// concurrent use.
type stats struct {
	*Agent

	mu       sync.Mutex
	byDriver map[string]map[types.NamespacedName]mounting.Stats
	asking   map[string]bool // drivers with a question in flight
}

func newStats(a *Agent) *stats {
	return &stats{Agent: a, byDriver: map[string]map[types.NamespacedName]mounting.Stats{}, asking: map[string]bool{}}
}

// VolumeStats returns the last known usage of the volumes on the node, by claim.
func (a *Agent) VolumeStats() map[types.NamespacedName]mounting.Stats {
	a.stats.mu.Lock()
	defer a.stats.mu.Unlock()
	all := map[types.NamespacedName]mounting.Stats{}
	for _, one := range a.stats.byDriver {
		maps.Copy(all, one)
	}
	return all
}

// Start implements manager.Runnable.
func (s *stats) Start(ctx context.Context) error {
	if s.StatsEvery <= 0 {
		return nil
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.Clock.After(s.StatsEvery):
		}
		s.round(ctx, &asking)
	}
}

// round starts the questions to each driver that has answered those of the last round.
func (s *stats) round(ctx context.Context, asking *sync.WaitGroup) {
	published, err := s.published(ctx)
	if err != nil {
		return // the cache does not fail once it is filled
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.byDriver, func(driver string, _ map[types.NamespacedName]mounting.Stats) bool {
		return published[driver] == nil
	})
	for driver, uses := range published {
		if !s.asking[driver] {
			s.asking[driver] = true
			asking.Go(func() { s.ask(ctx, driver, uses) })
		}
	}
}

// published returns a publication of each claim, by drivers that tell the usage of volumes.
func (s *stats) published(ctx context.Context) (map[string]map[types.NamespacedName]mounting.Use, error) {
	pods, err := s.listPods(ctx, client.MatchingFields{indexNode: s.Node})
	if err != nil {
		return nil, err
	}
	all := map[string]map[types.NamespacedName]mounting.Use{}
	for _, pod := range pods {
		uses, _ := mounting.Resolve(pod, s.objects(ctx))
		for _, use := range uses {
			name := use.Key.Driver
			driver := s.drivers.get(name)
			if use.Claim == nil || driver == nil || !driver.Stats || !s.isPublished(use) {
				continue
			}
			if all[name] == nil {
				all[name] = map[types.NamespacedName]mounting.Use{}
			}
			all[name][client.ObjectKeyFromObject(use.Claim)] = use
		}
	}
	return all, nil
}

func (s *stats) isPublished(use mounting.Use) bool {
	p, _ := s.records.get(use.Key).Publication(use.ID)
	return p.State == mounting.Certain
}

// ask replaces what is known of the volumes of a driver. A call that ends with its deadline ends the
// round, so that a driver that hangs is not called for each of its volumes.
func (s *stats) ask(ctx context.Context, driver string, uses map[types.NamespacedName]mounting.Use) {
	answers := map[types.NamespacedName]mounting.Stats{}
	for claim, use := range uses {
		if !s.isPublished(use) { // the volume was unpublished since the round began
			continue
		}
		var answer *csi.NodeGetVolumeStatsResponse
		request := &csi.NodeGetVolumeStatsRequest{VolumeId: use.Key.VolumeID(), VolumePath: s.layout.Target(use.ID)}
		failure := s.call(ctx, mounting.Snapshot{Key: use.Key}, "NodeGetVolumeStats", types.NamespacedName{},
			func(ctx context.Context, node csi.NodeClient, _ map[string]string) (err error) {
				answer, err = node.NodeGetVolumeStats(ctx, request)
				return err
			})
		if failure == nil {
			answers[claim] = mounting.StatsOf(answer)
			continue
		}
		logr.FromContextOrDiscard(ctx).V(1).Info("the driver does not say the usage of a volume", telemetry.KeyDriver,
			driver,
			"handle", use.Key.VolumeID(), "problem", failure.Words())
		if failure.Code == codes.DeadlineExceeded {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byDriver[driver] = answers
	delete(s.asking, driver)
}
