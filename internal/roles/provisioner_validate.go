package roles

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/purser-csi/purser/internal/core/provision"
	"github.com/purser-csi/purser/internal/csirpc"
)

// Validate implements role. It lists every mistake at once (CL-9).
func (p *Provisioner) Validate() error {
	_, address := csirpc.SocketPath(p.CSIAddress)
	if address != nil {
		address = fmt.Errorf("--csi-address: %w", address)
	}
	p.noteAhead()
	return errors.Join(slices.Concat(
		[]error{address},
		p.validate(), p.validateVolumes(), p.validatePace(), p.validateHTTP(),
		validateLogging(p.Logging), p.Election.validate(), p.Capacity.validate(), p.NodeDeployment.validate())...)
}

// A short name is a shared volume: 0 gives all claims one name (H-11).
const (
	minUUIDLength = 8
	maxUUIDLength = 32

	defaultNamePrefix = "pvc"
)

func (p *Provisioner) validateVolumes() []error {
	return []error{
		need(p.NameUUIDLength == -1 || (p.NameUUIDLength >= minUUIDLength && p.NameUUIDLength <= maxUUIDLength),
			"--volume-name-uuid-length=%d: must be -1 or from %d to %d", p.NameUUIDLength, minUUIDLength, maxUUIDLength),
		need(p.OrphanAudit >= 0, "--orphan-audit-interval=%s: must not be negative", p.OrphanAudit),
		p.validateIntents(), p.validateLeaseName(), p.validateNamePrefix(), p.validateNameTemplate(),
	}
}

const sampleUID = "00000000-0000-4000-8000-000000000000"

// validateNamePrefix looks at a whole name, since the prefix may leave the uid no room (R-1, P-1).
func (p *Provisioner) validateNamePrefix() error {
	length := cmp.Or(p.NameUUIDLength, -1) // 0 is told of by itself
	name := provision.VolumeName(provision.Key{UID: sampleUID}, provision.Options{NamePrefix: p.NamePrefix, NameUUIDLength: length})
	return need(len(validation.IsDNS1123Subdomain(name)) == 0,
		"--volume-name-prefix=%q: cannot begin the name of a PersistentVolume, which has lower-case letters, digits, dots and dashes only, at most %d with the claim's uid",
		p.NamePrefix, validation.DNS1123SubdomainMaxLength)
}

func (p *Provisioner) validateLeaseName() error {
	problems := validation.IsDNS1123Subdomain(p.LeaseName)
	if p.LeaseName != "" && p.Election.takesEndpoints() { // O-3, LK-1
		return fmt.Errorf("--leader-election-lease-name=%q: cannot be given with --enable-leader-election or --leader-election-type=endpoints: "+
			"version 1 and newer ones know the locks by the driver's name only, and would work beside this instance; give it when none of them is left", p.LeaseName)
	}
	return need(p.LeaseName == "" || len(problems) == 0, "--leader-election-lease-name=%q: %s", p.LeaseName, strings.Join(problems, "; "))
}

// validateNameTemplate looks at the names of the shortest and of the longest claims.
func (p *Provisioner) validateNameTemplate() error {
	if p.NameTemplate == "" {
		return nil
	}
	if p.NamePrefix != defaultNamePrefix {
		return errors.New("--volume-name-template and --volume-name-prefix: only one of them may be given")
	}
	if !strings.Contains(p.NameTemplate, "${pvc.uid}") {
		return fmt.Errorf("--volume-name-template=%q: must have ${pvc.uid}, or claims share volumes", p.NameTemplate)
	}
	for _, claim := range []string{"a", strings.Repeat("a-1.", 60) + "a"} {
		key := provision.Key{NamespacedName: types.NamespacedName{Namespace: claim[:min(len(claim), 63)], Name: claim}, UID: sampleUID}
		name := provision.VolumeName(key, provision.Options{NameTemplate: p.NameTemplate, NameUUIDLength: p.NameUUIDLength})
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 || len(name) > provision.MaxVolumeName {
			return fmt.Errorf("--volume-name-template=%q: %q cannot be the name of a PersistentVolume, which has at most %d lower-case letters, digits, dots and dashes; "+
				"known are ${pvc.uid}, ${pvc.namespace} and ${pvc.name}", p.NameTemplate, name, provision.MaxVolumeName)
		}
	}
	return nil
}

func (p *Provisioner) validatePace() []error {
	return []error{
		need(p.Timeout > 0, "--timeout=%s: must be more than 0", p.Timeout),
		need(p.CreateTimeout >= 0, "--create-timeout=%s: must not be negative", p.CreateTimeout),
		need(p.DeleteTimeout >= 0, "--delete-timeout=%s: must not be negative", p.DeleteTimeout),
		need(p.Workers > 0, "--worker-threads=0: must be at least 1, or no claim is worked on"),
		need(p.RetryStart > 0, "--retry-interval-start=%s: must be more than 0", p.RetryStart),
		need(p.RetryMax > 0, "--retry-interval-max=%s: must be more than 0", p.RetryMax),
		p.validateRetry(),
	}
}

// validateRetry lets a first delay that is longer than the longest one be, unless both were given: the other one is a default, and the
// longest delay counts, as with upstream (F-5).
func (p *Provisioner) validateRetry() error {
	if p.RetryMax >= p.RetryStart {
		return nil
	}
	if p.given("retry-interval-start") && p.given("retry-interval-max") {
		return fmt.Errorf("--retry-interval-max=%s: must not be less than --retry-interval-start=%s", p.RetryMax, p.RetryStart)
	}
	p.notices.add("--retry-interval-max", fmt.Sprintf("is %s and less than --retry-interval-start, which is %s: each delay is as long as the former", p.RetryMax, p.RetryStart))
	return nil
}

// ownPaths are taken, so the metrics cannot be there.
var ownPaths = []string{pathLive, pathReady, pathLeader}

func (p *Provisioner) validateHTTP() []error {
	if p.MetricsAddress != "" {
		p.notices.add("--metrics-address", "is the older name of --http-endpoint, and does not serve /healthz/leader-election") // F-52
	}
	return append(validateMetricsPath(p.address(), p.MetricsPath),
		validateAddress("http-endpoint", p.HTTPEndpoint), validateAddress("metrics-address", p.MetricsAddress),
		need(p.HTTPEndpoint == "" || p.MetricsAddress == "", // CL-4
			"--metrics-address and --http-endpoint: only one of them may be given; use --http-endpoint"))
}

// validateMetricsPath lets any path be where nothing is served, as upstream does (F-53).
func validateMetricsPath(address, path string) []error {
	if address == "" {
		return nil
	}
	return []error{
		need(strings.HasPrefix(path, "/") && !strings.ContainsAny(path, "{} "), "--metrics-path=%q: must begin with / and name one path", path),
		need(!slices.Contains(ownPaths, path) && !strings.HasPrefix(path, pathPprof), "--metrics-path=%q: something else is served there", path),
	}
}

// address is where HTTP is served; empty for nowhere.
func (p *Provisioner) address() string {
	if p.MetricsAddress != "" {
		return p.MetricsAddress
	}
	return p.HTTPEndpoint
}
