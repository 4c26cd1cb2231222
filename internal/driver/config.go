package driver

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/stats"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/records"
	"github.com/purser-csi/purser/internal/mount"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Defaults of Config.
const (
	DefaultName        = "csi.purser"
	defaultVersion     = "devel"
	defaultStopTimeout = 10 * time.Second
)

// Config is what a driver needs.
type Config struct {
	// Name is the name of the plugin; DefaultName when empty.
	Name string
	// Version is reported as vendor_version; "devel" when empty.
	Version string
	// NodeID names this node to the caller.
	NodeID string
	// Endpoint is where Run serves: unix:// and an absolute path.
	Endpoint string
	// StateDir is the absolute path of a folder that belongs to this driver
	// alone. It is made when it is missing.
	StateDir string
	// Backend keeps the volumes. What it can do beyond the minimum decides
	// which capabilities the driver advertises.
	Backend backend.Backend
	// Mounter makes volumes appear; see mount.Detect.
	Mounter mount.Mounter
	// TopologyKey names the place of the volumes, which exist on this node only. When it is empty,
	// callers are not told of it.
	TopologyKey string
	// Topology has further segments that hold for this node and for all volumes
	// of the backend, such as a zone. It is announced for every backend.
	Topology map[string]string
	// Zones divide the volumes of the backend among zones, each of them by
	// itself, for a development cluster with virtual nodes in these zones. The
	// topology key is ZoneKey. Empty for none.
	Zones []records.Zone
	// Attach is about ControllerPublishVolume.
	Attach Attach
	// Trace traces calls; nil for nothing.
	Trace stats.Handler
	// Metrics count and time calls; nil for none.
	Metrics *telemetry.Served
	// StopTimeout bounds how long a stopping driver waits for calls in
	// flight; 10 seconds when zero.
	StopTimeout time.Duration
}

// Attach says whether volumes are attached to nodes, and to which.
type Attach struct {
	// Required makes the driver offer ControllerPublishVolume. It goes with
	// attachRequired in the CSIDriver object.
	Required bool
	// Nodes are the ids of the nodes that can reach the volumes; others are
	// NOT_FOUND. Empty stands for this node. One that is "*" stands for every node.
	Nodes []string
}

// anyNode in Attach.Nodes stands for every node.
const anyNode = "*"

// Limits of the CSI spec ("Size Limits", GetPluginInfoResponse.name,
// NodeGetInfoResponse.node_id) and of the kernel (sockaddr_un.sun_path, less
// the final zero).
const (
	maxString     = 128
	maxMap        = 4 << 10
	maxNodeID     = 256
	maxSocketPath = 107
	maxPath       = 4095 // PATH_MAX, less the final zero
)

// maxCapabilities is more than there are combinations of access type, access mode and filesystem.
const maxCapabilities = 64

const endpointScheme = "unix://"

// pluginName is the domain name notation of GetPluginInfoResponse.name.
var pluginName = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9.-]{0,61}[a-zA-Z0-9])?$`)

// labelValue and topologyKey are what Kubernetes can store as a label.
var (
	labelValue  = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9._-]{0,61}[a-zA-Z0-9])?$`)
	topologyKey = regexp.MustCompile(
		`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[a-zA-Z0-9]([a-zA-Z0-9._-]{0,61}[a-zA-Z0-9])?$`,
	)
)

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = DefaultName
	}
	if c.Version == "" {
		c.Version = defaultVersion
	}
	if c.StopTimeout == 0 {
		c.StopTimeout = defaultStopTimeout
	}
	return c
}

// Mistake is a setting of [Config] that cannot be used, for a caller that knows it under another
// name.
type Mistake struct {
	Setting string // as the field is called
	Value   string // empty when it is missing
	Problem string // and what would do instead
}

// String names the field.
func (m Mistake) String() string {
	if m.Value == "" {
		return m.Setting + ": " + m.Problem
	}
	return fmt.Sprintf("%s %q: %s", m.Setting, m.Value, m.Problem)
}

// validate collects every mistake, so that one start shows them all.
func (c Config) validate() error {
	mistakes := append(c.settingMistakes(), c.partMistakes()...)
	if len(mistakes) == 0 {
		return nil
	}
	lines := make([]string, 0, len(mistakes))
	for _, m := range mistakes {
		lines = append(lines, m.String())
	}
	return fmt.Errorf("mistakes in the driver's configuration: %d\n- %s", len(mistakes), strings.Join(lines, "\n- "))
}

// CheckSettings does what New does for all that needs no backend and no
// mounter. So a caller can refuse a command line before it makes those.
func (c Config) CheckSettings() []Mistake { return c.withDefaults().settingMistakes() }

func (c Config) settingMistakes() []Mistake {
	return slices.Concat(c.identityMistakes(), c.placeMistakes(), c.topologyMistakes(), c.zoneMistakes())
}

func (c Config) topologyMistakes() (mistakes []Mistake) {
	if c.TopologyKey != "" && !topologyKey.MatchString(c.TopologyKey) {
		mistakes = append(mistakes, Mistake{
			"TopologyKey", c.TopologyKey,
			fmt.Sprintf(
				"must be a domain, a slash and a name, for example topology.%s/node; or empty for none", DefaultName,
			),
		})
	} else if problem := nodeIDMistake(c.TopologyKey, c.NodeID); problem != "" {
		mistakes = append(mistakes, Mistake{"NodeID", c.NodeID, problem})
	}
	for _, key := range slices.Sorted(maps.Keys(c.Topology)) {
		if !topologyKey.MatchString(key) {
			mistakes = append(
				mistakes,
				Mistake{
					"Topology", key, "must be a domain, a slash and a name, for example topology.kubernetes.io/zone",
				},
			)
		}
		if value := c.Topology[key]; !labelValue.MatchString(value) {
			mistakes = append(mistakes, Mistake{
				"Topology", key + "=" + value,
				"the value must have 1 to 63 letters, digits, dots, dashes and underscores, with a letter or digit " +
					"at both ends",
			})
		}
	}
	return mistakes
}

func (c Config) identityMistakes() (mistakes []Mistake) {
	if !pluginName.MatchString(c.Name) {
		mistakes = append(mistakes, Mistake{
			"Name", c.Name,
			fmt.Sprintf(
				"must have 1 to 63 letters, digits, dots and dashes, with a letter or digit at both ends, for "+
					"example %q",
				DefaultName,
			),
		})
	}
	if len(c.Version) > maxString {
		mistakes = append(
			mistakes,
			Mistake{"Version", c.Version, fmt.Sprintf(
				"has %d bytes, the CSI spec allows %d", len(c.Version), maxString,
			)},
		)
	}
	switch {
	case c.NodeID == "":
		mistakes = append(mistakes, Mistake{"NodeID", "", "missing; give the name of this node"})
	case len(c.NodeID) > maxNodeID:
		mistakes = append(
			mistakes,
			Mistake{"NodeID", c.NodeID, fmt.Sprintf("has %d bytes, the CSI spec allows %d", len(c.NodeID), maxNodeID)},
		)
	}
	return mistakes
}

func (c Config) placeMistakes() []Mistake {
	mistakes := endpointMistakes(c.Endpoint)
	if !filepath.IsAbs(c.StateDir) {
		mistakes = append(mistakes, Mistake{"StateDir", c.StateDir, "give an absolute path"})
	}
	if c.StopTimeout < 0 {
		mistakes = append(mistakes, Mistake{"StopTimeout", c.StopTimeout.String(), "must not be negative"})
	}
	return mistakes
}

func endpointMistakes(endpoint string) []Mistake {
	path, isUnix := strings.CutPrefix(endpoint, endpointScheme)
	if !isUnix || !filepath.IsAbs(path) || strings.HasSuffix(path, "/") {
		return []Mistake{{
			"Endpoint", endpoint,
			fmt.Sprintf(
				"must be %s and the absolute path of a socket, for example %s/run/csi/csi.sock",
				endpointScheme,
				endpointScheme,
			),
		}}
	}
	if len(path) > maxSocketPath {
		return []Mistake{{
			"Endpoint", endpoint,
			fmt.Sprintf(
				"the path has %d bytes, but the kernel allows %d for a socket; choose a shorter one",
				len(path),
				maxSocketPath,
			),
		}}
	}
	return nil
}

func (c Config) partMistakes() (mistakes []Mistake) {
	if c.Backend == nil {
		mistakes = append(mistakes, Mistake{"Backend", "", "missing"})
	} else {
		_, direct := c.Backend.(backend.Direct)
		_, stager := c.Backend.(backend.Stager)
		if direct == stager {
			mistakes = append(mistakes, Mistake{
				"Backend", fmt.Sprintf("%T", c.Backend),
				"must say in one way how its volumes are published (backend.Direct or backend.Stager)",
			})
		}
	}
	if c.Mounter == nil {
		mistakes = append(mistakes, Mistake{"Mounter", "", "missing; mount.Detect chooses one"})
	}
	return mistakes
}

// socketPath is the path in the endpoint.
func (c Config) socketPath() string {
	return strings.TrimPrefix(c.Endpoint, endpointScheme)
}
