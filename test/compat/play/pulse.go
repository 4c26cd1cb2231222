package play

import (
	"context"
	"fmt"
	"time"

	"github.com/purser-csi/purser/test/compat/scenario"
)

// probeName is the scenario of the probe.
const probeName = "probe"

// Probe creates a claim and a volume whenever a scenario waits for a probe, until ctx ends, and
// notifies the recorder when the controllers have bound and deleted them. A probe waits for the
// condition Unused too, which has a queue of its own. Several probes can run in parallel, each with
// its own number. The error names the step at which the controllers failed.
func (stage Stage) Probe(ctx context.Context, number int) error {
	p := New(stage, scenario.Scenario{Name: probeName})
	if err := p.CreateNamespace(ctx); err != nil {
		return err
	}
	for n := number * 1_000_000; ; n++ {
		select {
		case <-stage.Recorder.Wanted():
		case <-ctx.Done():
			return nil
		}
		began := time.Now()
		if err := p.probe(ctx, n); err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // this is how it ends
			}
			return fmt.Errorf("the controllers do not bind and delete a plain volume any more: %w", err)
		}
		stage.Recorder.Probed(began)
	}
}

const probeText = `# probe
pvc c%[1]d 1Gi RWO class=c%[1]d
wait pvc c%[1]d event=ProvisioningFailed
pv v%[1]d 1Gi RWO class=c%[1]d claim=c%[1]d uid=c%[1]d
wait pvc c%[1]d Bound cond=Unused
delete pvc c%[1]d
delete pv v%[1]d
wait pvc c%[1]d gone
wait pv v%[1]d gone
`

func (p *Player) probe(ctx context.Context, n int) error {
	s, err := scenario.Parse(fmt.Sprintf(probeText, n))
	if err != nil {
		return err
	}
	if err := p.take(ctx, s.Steps); err != nil {
		return err
	}
	if len(p.Failures) > 0 {
		return fmt.Errorf("%s", p.Failures[0])
	}
	return nil
}
