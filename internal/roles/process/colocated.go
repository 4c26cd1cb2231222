package process

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Colocated is another role in the same process, which has no HTTP endpoint of its own.
type Colocated struct {
	Name     string
	Ready    Check
	Renewing func() error         // its lease
	Registry *prometheus.Registry // of both
}
