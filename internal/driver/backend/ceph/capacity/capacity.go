// Package capacity asks a cluster how much room a pool has. The answer is what
// can be written before the fullest disk is full, divided by the number of
// copies; sizes that are promised and not written are not in it.
//
// It must not know volumes.
package capacity

import (
	"context"
	"encoding/json"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// Tools runs programs; a command.Runner.
type Tools interface {
	Run(context.Context, command.Call) ([]byte, error)
}

// usage is what ceph df says.
type usage struct {
	Pools []struct {
		Name  string `json:"name"`
		Stats struct {
			Room float64 `json:"max_avail"`
		} `json:"stats"`
	} `json:"pools"`
}

// Of gives the room of a pool; fault.NotFound when there is no such pool.
func Of(ctx context.Context, tools Tools, access command.Access, pool string) (int64, error) {
	out, err := tools.Run(
		ctx,
		command.Call{Program: command.Ceph, Access: access, Arguments: []string{"df", "--format=json"}},
	)
	if err != nil {
		return 0, err
	}
	var u usage
	if err := json.Unmarshal(out, &u); err != nil {
		return 0, fault.Internal.Errorf("ceph df answered what this program cannot read: %w", err)
	}
	for _, one := range u.Pools {
		if one.Name == pool {
			return int64(one.Stats.Room), nil
		}
	}
	return 0, fault.NotFound.Errorf("pool %q does not exist in cluster %q", pool, access.Cluster)
}
