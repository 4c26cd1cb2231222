package health

import (
	health "github.com/purser-csi/purser/internal/health/rules"
	"github.com/purser-csi/purser/internal/telemetry"
)

// state returns the health of all volumes for one scrape.
func (c *Controller) state() telemetry.VolumeHealthState {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	state := telemetry.VolumeHealthState{Driver: c.Driver, Volumes: map[telemetry.ClassHealth]int{}}
	for _, v := range c.memory.volumes {
		status := string(health.Worst(v.known.Shown))
		switch {
		case status != "":
		case !v.known.Checked.IsZero() || c.Lists && !c.memory.list.at.IsZero():
			status = telemetry.VolumeIsHealthy
		default:
			status = telemetry.VolumeIsUnknown
		}
		state.Volumes[telemetry.ClassHealth{Class: v.class, Status: status}]++
		seen := map[string]bool{}
		for _, condition := range v.known.Shown {
			if one := string(condition.Status); !seen[one] {
				seen[one] = true
				state.Claims = append(state.Claims, telemetry.ClaimHealth{
					Namespace: v.claim.Namespace, Claim: v.claim.Name, Status: one,
				})
			}
		}
	}
	return state
}
