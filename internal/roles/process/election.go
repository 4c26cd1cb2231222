package process

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/roles/cli"
)

// Election has the settings of leader election.
type Election struct {
	Enabled       bool
	Namespace     string
	Labels        map[string]string
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration

	LockType string // of --leader-election-type; empty when not given
	old      bool   // --enable-leader-election of v1 was given
	Holder   string
}

const (
	// LockLeases is the value of --leader-election-type for the lock on a Lease.
	LockLeases    = "leases"
	lockEndpoints = "endpoints"
)

// NewIdentity returns an identity that no other process has. A host name is not enough: pods on the
// host's network share it, and so do a pod and its replacement. Two holders with one identity would
// both lead (LK-2, H-32).
func NewIdentity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "purser"
	}
	return host + "_" + string(uuid.NewUUID())
}

// Identity returns the holder identity of this process in the lease. It does not change while the
// process runs.
func (e *Election) Identity() string { return e.Holder }

// AddFlags adds the flags F-43 to F-48.
func (e *Election) AddFlags(f *pflag.FlagSet) {
	f.BoolVar(&e.Enabled, "leader-election", false, "let only one of several instances work at a time")
	f.StringVar(&e.Namespace, "leader-election-namespace", "", "`namespace` of the lease; empty for the pod's own")
	f.DurationVar(
		&e.LeaseDuration,
		"leader-election-lease-duration",
		15*time.Second,
		"how long other instances wait for a leader that does not renew the lease",
	)
	f.DurationVar(
		&e.RenewDeadline,
		"leader-election-renew-deadline",
		10*time.Second,
		"how long the leader tries to renew the lease before it ends",
	)
	f.DurationVar(&e.RetryPeriod, "leader-election-retry-period", 5*time.Second, "pause between two attempts")
	// Without leader election upstream reads none of them.
	with := []string{"leader-election", "enable-leader-election"}
	cli.Ranged(f, cli.Range{Least: "1s", Most: "8760h", With: with}, "leader-election-lease-duration")
	cli.Ranged(
		f, cli.Range{Least: "1ns", Most: "8760h", With: with}, "leader-election-renew-deadline",
		"leader-election-retry-period",
	)
	f.Var(labels{&e.Labels}, "leader-election-labels", "labels for the lease, as `key:value`,...")
}

// SetType sets the value of --leader-election-type: leases or endpoints (O-3).
func (e *Election) SetType(value string) error {
	if value != LockLeases && value != lockEndpoints {
		return fmt.Errorf("%q: must be %s or %s", value, LockLeases, lockEndpoints)
	}
	e.LockType = value
	return nil
}

// EnableOld sets the value of --enable-leader-election of v1 (O-2).
func (e *Election) EnableOld(value string) error {
	enabled, err := strconv.ParseBool(value)
	e.Enabled, e.old = enabled, true
	if err != nil {
		return cli.IsBool(value)
	}
	return nil
}

// TakesEndpoints reports whether the lock of v1 is needed: it was v1's default (O-2).
func (e *Election) TakesEndpoints() bool {
	return e.Enabled && (e.LockType == lockEndpoints || (e.LockType == "" && e.old))
}

// Validate lists the mistakes; none without leader election.
func (e *Election) Validate() []error {
	if !e.Enabled {
		return nil
	}
	const minJitter = 1.2 // of client-go
	return []error{
		cli.Need(
			e.LeaseDuration > e.RenewDeadline,
			"--leader-election-lease-duration=%s: must be more than --leader-election-renew-deadline=%s",
			e.LeaseDuration,
			e.RenewDeadline,
		),
		cli.Need(
			e.LeaseDuration >= time.Second,
			"--leader-election-lease-duration=%s: must be at least 1s, the lease counts in seconds",
			e.LeaseDuration,
		),
		cli.Need(
			e.RetryPeriod > 0 && float64(e.RenewDeadline) > minJitter*float64(e.RetryPeriod),
			"--leader-election-renew-deadline=%s: must be more than 1.2 times --leader-election-retry-period=%s, "+
				"which must be more than 0",
			e.RenewDeadline,
			e.RetryPeriod,
		),
	}
}

// NewLock returns the lock on the Lease, and with the type endpoints on v1's Endpoints object as
// well (O-3). It has its own client and connection, so that the requests of busy controllers do not
// delay a renewal.
func (e *Election) NewLock(api *rest.Config, name string, events resourcelock.EventRecorder) (*ElectionLock, error) {
	api = rest.AddUserAgent(kube.DedicatedTransport(api), "leader-election")
	api.RateLimiter = nil                             // a limit of its own
	api.Timeout = max(time.Second, e.RenewDeadline/2) // one request that hangs does not lose the lease
	api.WarningHandlerWithContext = rest.NoWarnings{} // about Endpoints, which are deprecated
	leases, err := coordinationv1client.NewForConfig(api)
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	meta := metav1.ObjectMeta{Namespace: e.LeaseNamespace(), Name: name}
	config := resourcelock.ResourceLockConfig{Identity: e.Holder, EventRecorder: events}
	var lock resourcelock.Interface = &resourcelock.LeaseLock{
		LeaseMeta: meta, Client: leases, LockConfig: config,
		Labels: e.Labels,
	}
	if e.TakesEndpoints() {
		core, err := corev1client.NewForConfig(api)
		if err != nil {
			return nil, fmt.Errorf("leader election: %w", err)
		}
		lock = &kube.BothLocks{First: &kube.EndpointsLock{Meta: meta, Client: core, Holder: e.Holder}, Second: lock}
	}
	return newElectionLock(lock, e.LeaseDuration), nil
}

// DriverLeaseName returns upstream's name of the lease, so that Purser and upstream never lead at
// once (LK-1). If upstream's name is not valid, upstream cannot lead, and the name is changed into
// a valid one (LK-3).
func DriverLeaseName(driver string) string {
	name := strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9') || r == '-' {
			return r
		}
		return '-'
	}, driver)
	if strings.HasSuffix(name, "-") {
		name += "X"
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		name = "x" + strings.ToLower(name)
		name = name[:min(len(name), validation.DNS1123SubdomainMaxLength)]
	}
	return name
}

// LeaseNamespace returns the namespace of the lease (F-44).
func (e *Election) LeaseNamespace() string {
	if e.Namespace != "" {
		return e.Namespace
	}
	if pod := os.Getenv("POD_NAMESPACE"); pod != "" {
		return pod
	}
	if own, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace"); err == nil && len(own) > 0 {
		return strings.TrimSpace(string(own))
	}
	return "default"
}

// labels is the value of --leader-election-labels. As upstream, a colon separates key and value
// (F-48).
type labels struct{ byKey *map[string]string }

// Set implements pflag.Value.
func (l labels) Set(value string) error {
	set := map[string]string{}
	for item := range strings.SplitSeq(value, ",") {
		if item == "" {
			continue
		}
		key, text, found := strings.Cut(item, ":")
		key, text = strings.TrimSpace(key), strings.TrimSpace(text)
		if !found {
			return fmt.Errorf("%q: must be a key, a colon and a value", item)
		}
		if problems := slices.Concat(
			validation.IsQualifiedName(key), validation.IsValidLabelValue(text),
		); len(problems) > 0 {
			return fmt.Errorf("%q: %s", item, strings.Join(problems, "; "))
		}
		set[key] = text
	}
	*l.byKey = set
	return nil
}

// String implements pflag.Value.
func (l labels) String() string {
	if l.byKey == nil {
		return ""
	}
	var items []string
	for _, key := range slices.Sorted(maps.Keys(*l.byKey)) {
		items = append(items, key+":"+(*l.byKey)[key])
	}
	return strings.Join(items, ",")
}

// Type implements pflag.Value.
func (labels) Type() string { return "labels" }
