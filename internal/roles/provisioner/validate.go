package provisioner

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/roles/cli"
)

// Validate implements role. It lists every mistake at once (CL-9).
func (p *Provisioner) Validate() error {
	return errors.Join(slices.Concat(
		p.Connection.Validate(), p.ValidateShared(),
		p.validateVolumes(), p.validatePace(), p.Topology.validate(), p.Capacity.validate(),
		p.validateNode(), p.validateReap())...)
}

// Short names collide, and then claims share a volume: with 0 all claims have one name (H-11).
const (
	minUUIDLength = 8
	maxUUIDLength = 32

	defaultNamePrefix = "pvc"
)

func (p *Provisioner) validateVolumes() []error {
	return []error{
		cli.Need(
			p.Volumes.NameUUIDLength == -1 ||
				(p.Volumes.NameUUIDLength >= minUUIDLength && p.Volumes.NameUUIDLength <= maxUUIDLength),
			"--volume-name-uuid-length=%d: must be -1 or from %d to %d",
			p.Volumes.NameUUIDLength,
			minUUIDLength,
			maxUUIDLength,
		),
		cli.Need(p.Journal.OrphanAudit >= 0, "--orphan-audit-interval=%s: must not be negative", p.Journal.OrphanAudit),
		p.validateIntents(), p.validateLeaseName(), p.validateNamePrefix(), p.validateNameTemplate(),
	}
}

const sampleUID = "00000000-0000-4000-8000-000000000000"

// validateNamePrefix checks a whole volume name, since a long prefix may leave no room for the uid
// (R-1, P-1).
func (p *Provisioner) validateNamePrefix() error {
	length := cmp.Or(p.Volumes.NameUUIDLength, -1) // 0 is reported by itself
	name := provision.VolumeName(
		provision.Key{UID: sampleUID},
		provision.Options{NamePrefix: p.Volumes.NamePrefix, NameUUIDLength: length},
	)
	return cli.Need(
		len(validation.IsDNS1123Subdomain(name)) == 0,
		"--volume-name-prefix=%q: cannot begin the name of a PersistentVolume, which has lower-case letters, digits, "+
			"dots and dashes only, at most %d with the claim's uid",
		p.Volumes.NamePrefix,
		validation.DNS1123SubdomainMaxLength,
	)
}

func (p *Provisioner) validateLeaseName() error {
	problems := validation.IsDNS1123Subdomain(p.LeaseName)
	if p.LeaseName != "" && p.Election.TakesEndpoints() { // O-3, LK-1
		return fmt.Errorf(
			"--leader-election-lease-name=%q: cannot be given with --enable-leader-election or "+
				"--leader-election-type=endpoints: version 1 and newer ones know the locks by the driver's name "+
				"only, and would work beside this instance; give it when none of them is left",
			p.LeaseName,
		)
	}
	return cli.Need(
		p.LeaseName == "" || len(problems) == 0,
		"--leader-election-lease-name=%q: %s",
		p.LeaseName,
		strings.Join(problems, "; "),
	)
}

// validateNameTemplate checks the volume names of the shortest and of the longest claim names.
func (p *Provisioner) validateNameTemplate() error {
	if p.Volumes.NameTemplate == "" {
		return nil
	}
	if p.Volumes.NamePrefix != defaultNamePrefix {
		return errors.New("--volume-name-template and --volume-name-prefix: only one of them may be given")
	}
	if !strings.Contains(p.Volumes.NameTemplate, "${pvc.uid}") {
		return fmt.Errorf(
			"--volume-name-template=%q: must have ${pvc.uid}, or claims share volumes", p.Volumes.NameTemplate,
		)
	}
	for _, claim := range []string{"a", strings.Repeat("a-1.", 60) + "a"} {
		key := provision.Key{
			NamespacedName: types.NamespacedName{Namespace: claim[:min(len(claim), 63)], Name: claim},
			UID:            sampleUID,
		}
		name := provision.VolumeName(
			key,
			provision.Options{NameTemplate: p.Volumes.NameTemplate, NameUUIDLength: p.Volumes.NameUUIDLength},
		)
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 || len(name) > provision.MaxVolumeName {
			return fmt.Errorf(
				"--volume-name-template=%q: %q cannot be the name of a PersistentVolume, which has at most %d "+
					"lower-case letters, digits, dots and dashes; known are ${pvc.uid}, ${pvc.namespace} and "+
					"${pvc.name}",
				p.Volumes.NameTemplate,
				name,
				provision.MaxVolumeName,
			)
		}
	}
	return nil
}

func (p *Provisioner) validatePace() []error {
	return []error{
		cli.Need(p.Pace.CreateTimeout >= 0, "--create-timeout=%s: must not be negative", p.Pace.CreateTimeout),
		cli.Need(p.Pace.DeleteTimeout >= 0, "--delete-timeout=%s: must not be negative", p.Pace.DeleteTimeout),
		cli.Need(p.Workers > 0, "--worker-threads=0: must be at least 1, or no claim is worked on"),
		cli.Need(p.RetryStart > 0, "--retry-interval-start=%s: must be more than 0", p.RetryStart),
		cli.Need(p.RetryMax > 0, "--retry-interval-max=%s: must be more than 0", p.RetryMax),
		p.validateRetry(),
	}
}

// validateRetry refuses a first delay above the longest one only if both were given. If one of them
// is a default, the longest delay counts, as with upstream (F-5).
func (p *Provisioner) validateRetry() error {
	if p.RetryMax >= p.RetryStart {
		return nil
	}
	if p.Given("retry-interval-start") && p.Given("retry-interval-max") {
		return fmt.Errorf(
			"--retry-interval-max=%s: must not be less than --retry-interval-start=%s",
			p.RetryMax,
			p.RetryStart,
		)
	}
	p.Notices.Add(
		"--retry-interval-max",
		fmt.Sprintf(
			"is %s and less than --retry-interval-start, which is %s: each delay is as long as the previous one",
			p.RetryMax,
			p.RetryStart,
		),
	)
	return nil
}
