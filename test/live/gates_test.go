package live

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/purser-csi/purser/internal/roles/attacher"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/provisioner"
	"github.com/purser-csi/purser/internal/roles/resizer"
	"github.com/purser-csi/purser/internal/roles/snapshotter"
)

// gateInHelp is a line about a gate on the help page of an upstream program.
var gateInHelp = regexp.MustCompile(`(\w+)=true\|false`)

// G-6: each role accepts the gates that the help page of upstream's program lists, those of the
// libraries included. A chart that sets one would not start otherwise.
func TestUpstreamGatesAreAccepted(t *testing.T) {
	for program, gates := range map[string]*cli.Gates{
		"csi-provisioner":     provisioner.New().Gates,
		"csi-attacher":        attacher.New().Gates,
		"csi-resizer":         resizer.New().Gates,
		"csi-snapshotter":     snapshotter.New().Gates,
		"snapshot-controller": snapshotter.NewController().Gates,
	} {
		t.Run(program, func(t *testing.T) {
			path := filepath.Join("..", "..", "bin", "upstream-"+program)
			if _, err := os.Stat(path); err != nil {
				t.Skip("upstream's program is not built: ", err)
			}
			help, _ := exec.CommandContext(t.Context(), path, "--help").CombinedOutput() // some end with 2
			listed := gateInHelp.FindAllSubmatch(help, -1)
			if len(listed) < 30 {
				t.Errorf("the help page lists %d gates", len(listed))
			}
			for _, gate := range listed {
				if err := gates.Set(string(gate[1]) + "=true"); err != nil {
					t.Errorf("G-6: upstream accepts %s, and ours does not: %v", gate[1], err)
				}
			}
		})
	}
}
