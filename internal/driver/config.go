package driver

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"
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
	// TopologyKey names the place of volumes that exist on this node only, see
	// backend.Local. When it is empty, callers are not told of it.
	TopologyKey string
	// Metrics count and time calls; nil for none.
	Metrics *telemetry.Served
	// StopTimeout bounds how long a stopping driver waits for calls in
	// flight; 10 seconds when zero.
	StopTimeout time.Duration
}

// Limits of the CSI spec ("Size Limits", GetPluginInfoResponse.name,
// NodeGetInfoResponse.node_id) and of the kernel (sockaddr_un.sun_path, less
// the final zero).
const (
	maxString     = 128
	maxMap        = 4 << 10
	maxNodeID     = 256
	maxSocketPath = 107
)

const endpointScheme = "unix://"

// pluginName is the domain name notation of GetPluginInfoResponse.name.
var pluginName = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9.-]{0,61}[a-zA-Z0-9])?$`)

// labelValue and topologyKey are what Kubernetes can store as a label.
var (
	labelValue  = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9._-]{0,61}[a-zA-Z0-9])?$`)
	topologyKey = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[a-zA-Z0-9]([a-zA-Z0-9._-]{0,61}[a-zA-Z0-9])?$`)
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

// validate collects every mistake, so that one start shows them all.
func (c Config) validate() error {
	return inOneError(append(c.settingMistakes(), c.partMistakes()...))
}

// CheckSettings does what New does for all that needs no backend and no
// mounter. So a caller can refuse a command line before it makes those.
func (c Config) CheckSettings() error {
	return inOneError(c.withDefaults().settingMistakes())
}

func inOneError(mistakes []string) error {
	if len(mistakes) == 0 {
		return nil
	}
	return fmt.Errorf("mistakes in the driver's configuration: %d\n- %s", len(mistakes), strings.Join(mistakes, "\n- "))
}

func (c Config) settingMistakes() []string {
	return append(append(c.identityMistakes(), c.placeMistakes()...), c.topologyMistakes()...)
}

func (c Config) topologyMistakes() []string {
	if c.TopologyKey != "" && !topologyKey.MatchString(c.TopologyKey) {
		return []string{fmt.Sprintf("topology key %q: must be a domain, a slash and a name, for example topology.%s/node; or empty for none",
			c.TopologyKey, DefaultName)}
	}
	return location{key: c.TopologyKey, node: c.NodeID}.mistakes()
}

func (c Config) identityMistakes() (mistakes []string) {
	if !pluginName.MatchString(c.Name) {
		mistakes = append(mistakes, fmt.Sprintf("name %q: must have 1 to 63 letters, digits, dots and dashes, "+
			"with a letter or digit at both ends, for example %q", c.Name, DefaultName))
	}
	if len(c.Version) > maxString {
		mistakes = append(mistakes, fmt.Sprintf("version %q: has %d bytes, the CSI spec allows %d", c.Version, len(c.Version), maxString))
	}
	switch {
	case c.NodeID == "":
		mistakes = append(mistakes, "node id: missing; give the name of this node")
	case len(c.NodeID) > maxNodeID:
		mistakes = append(mistakes, fmt.Sprintf("node id %q: has %d bytes, the CSI spec allows %d", c.NodeID, len(c.NodeID), maxNodeID))
	}
	return mistakes
}

func (c Config) placeMistakes() (mistakes []string) {
	mistakes = append(mistakes, endpointMistakes(c.Endpoint)...)
	if !filepath.IsAbs(c.StateDir) {
		mistakes = append(mistakes, fmt.Sprintf("state directory %q: give an absolute path", c.StateDir))
	}
	if c.StopTimeout < 0 {
		mistakes = append(mistakes, fmt.Sprintf("stop timeout %s: must not be negative", c.StopTimeout))
	}
	return mistakes
}

func endpointMistakes(endpoint string) []string {
	path, isUnix := strings.CutPrefix(endpoint, endpointScheme)
	if !isUnix || !filepath.IsAbs(path) || strings.HasSuffix(path, "/") {
		return []string{fmt.Sprintf("endpoint %q: must be %s and the absolute path of a socket, for example %s/run/csi/csi.sock",
			endpoint, endpointScheme, endpointScheme)}
	}
	if len(path) > maxSocketPath {
		return []string{fmt.Sprintf("endpoint %q: the path has %d bytes, but the kernel allows %d for a socket; choose a shorter one",
			endpoint, len(path), maxSocketPath)}
	}
	return nil
}

func (c Config) partMistakes() (mistakes []string) {
	if c.Backend == nil {
		mistakes = append(mistakes, "backend: missing")
	} else {
		_, direct := c.Backend.(backend.Direct)
		_, stager := c.Backend.(backend.Stager)
		if direct == stager {
			mistakes = append(mistakes, fmt.Sprintf("backend %T: must say in one way how its volumes are published (backend.Direct or backend.Stager)", c.Backend))
		}
	}
	if c.Mounter == nil {
		mistakes = append(mistakes, "mounter: missing; mount.Detect chooses one")
	}
	return mistakes
}

// socketPath is the path in the endpoint.
func (c Config) socketPath() string {
	return strings.TrimPrefix(c.Endpoint, endpointScheme)
}
