package cluster

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

// Config says what to run and where.
type Config struct {
	Dir string // data folder, created with mode 0700: certificates, etcd's data, logs, kubeconfig
	// the caller's lock on Dir, which stays the caller's; nil: Start takes one and Stop releases it
	Lock       *Lock
	Binaries   Binaries   // from FindBinaries
	Components Components // what runs beside etcd and kube-apiserver

	// Controllers run in kube-controller-manager; nil means HousekeepingControllers and
	// VolumeControllers.
	Controllers []string

	// Audit has every request recorded, without bodies, in Cluster.AuditLog.
	Audit bool

	// Durable has etcd wait for the disk with each write, as it does wherever data is to outlive
	// the machine.
	Durable bool

	// Progress is called from the goroutine of Start, once per finished step; nil means silence.
	Progress func(Step)

	// Waiting is called likewise, with what Start waits for from now on; nil means silence.
	Waiting func(what string)

	// ExtraArgs are appended to a component's own; for most flags the last one counts.
	ExtraArgs map[Component][]string
}

// Step is something that Start has finished. Steps overlap: they do not add up.
type Step struct {
	Name string
	Took time.Duration
}

// normalize fills in what was left out and reports everything that is wrong, at once.
func (cfg Config) normalize() (Config, error) {
	var mistakes []error
	if cfg.Dir == "" {
		mistakes = append(mistakes, errors.New("no data folder: set Dir"))
	}
	dir, err := filepath.Abs(cfg.Dir)
	mistakes = append(mistakes, err)
	if cfg.Lock != nil && cfg.Lock.dir != dir {
		mistakes = append(mistakes,
			fmt.Errorf("the lock is on %s, the data folder is %s: lock the data folder", cfg.Lock.dir, dir))
	}
	mistakes = append(mistakes, cfg.componentMistakes()...)
	if err := errors.Join(mistakes...); err != nil {
		return cfg, err
	}
	cfg.Dir = dir
	cfg.Components = slices.Compact(slices.Sorted(slices.Values(cfg.Components)))
	if cfg.Controllers == nil {
		cfg.Controllers = append(HousekeepingControllers(), VolumeControllers()...)
	}
	if cfg.Progress == nil {
		cfg.Progress = func(Step) {}
	}
	if cfg.Waiting == nil {
		cfg.Waiting = func(string) {}
	}
	return cfg, nil
}

func (cfg Config) componentMistakes() (mistakes []error) {
	for _, c := range cfg.Components {
		if c != Scheduler && c != ControllerManager {
			mistakes = append(mistakes,
				fmt.Errorf("component %q is not optional or unknown: use %q or %q", c, Scheduler, ControllerManager))
		}
	}
	for _, program := range cfg.Components.Programs() {
		if path := cfg.Binaries[program]; !filepath.IsAbs(path) {
			mistakes = append(mistakes,
				fmt.Errorf("the path of %s is %q, not an absolute path: use FindBinaries", program, path))
		}
	}
	for c := range cfg.ExtraArgs {
		if !slices.Contains(cfg.Components.Programs(), string(c)) {
			mistakes = append(mistakes, fmt.Errorf(
				"extra arguments for %q, which does not run: add it to Components", c,
			))
		}
	}
	return mistakes
}
