package sidecars

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/component-base/featuregate"

	"github.com/purser-csi/purser/internal/roles/attacher"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/healthmonitor"
	"github.com/purser-csi/purser/internal/roles/resizer"
	"github.com/purser-csi/purser/internal/roles/snapshotter"
	"github.com/purser-csi/purser/test/rolestest"
)

// A role that contains others accepts their flags and gates, so that the arguments of a manifest with
// four containers can be moved into one.
func TestFlagsAndGatesOfTheRoles(t *testing.T) {
	s := New()
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.AddFlags(f)
	gates := func(g *cli.Gates) []featuregate.Feature { return slices.Sorted(maps.Keys(g.GetAll())) }
	a, r, n, h := attacher.New(), resizer.New(), snapshotter.New(), healthmonitor.New()
	for _, role := range []struct {
		name      string
		add       func(*pflag.FlagSet)
		own, here *cli.Gates
	}{
		{"attacher", a.AddFlags, a.Gates, s.Attacher.Gates},
		{"resizer", r.AddFlags, r.Gates, s.Resizer.Gates},
		{"snapshotter", n.AddFlags, n.Gates, s.Snapshotter.Gates},
		{"external-health-monitor-controller", h.AddFlags, h.Gates, s.Health.Gates},
	} {
		own := pflag.NewFlagSet("", pflag.ContinueOnError)
		role.add(own)
		own.VisitAll(func(flag *pflag.Flag) {
			if f.Lookup(flag.Name) == nil {
				t.Errorf("the flag --%s of csi-%s is not accepted", flag.Name, role.name)
			}
		})
		for _, gate := range gates(role.own) {
			on := !role.own.Enabled(gate)
			text := string(gate) + "=false"
			if on {
				text = string(gate) + "=true"
			}
			if err := f.Set("feature-gates", text); err != nil && !locked(role.own, gate) {
				t.Errorf("--feature-gates=%s of csi-%s: %v", text, role.name, err)
			} else if err == nil && role.here.Enabled(gate) != on {
				t.Errorf("--feature-gates=%s has no effect on csi-%s", text, role.name)
			}
		}
	}
	if err := f.Set("extra-create-metadata", "true"); err != nil || !s.Volumes.ExtraMetadata || !s.Snapshotter.ExtraMetadata {
		t.Errorf("--extra-create-metadata is not set for both roles that have it: %v", err)
	}
	if err := f.Set("feature-gates", "NoSuchGate=true"); err == nil {
		t.Error("a gate that no role has is accepted")
	}
}

func locked(g *cli.Gates, gate featuregate.Feature) bool { return g.GetAll()[gate].LockToDefault }

// OC-4, OC-9: a flag of one component wins over the flag of all, in any order.
func TestFlagsOfOneComponent(t *testing.T) {
	for _, args := range [][]string{
		{"--timeout=20s", "--attacher-timeout=6m", "--worker-threads=7", "--resizer-workers=3"},
		{"--attacher-timeout=6m", "--timeout=20s", "--workers=3", "--worker-threads=7"},
	} {
		s := New()
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		s.AddFlags(f)
		if err := errors.Join(f.Parse(args), s.Validate()); err != nil {
			t.Fatal(err)
		}
		s.Host(&s.Attacher.Common, &s.Resizer.Common, &s.Snapshotter.Common)
		if err := s.overrides.Apply(); err != nil {
			t.Fatal(err)
		}
		if s.Timeout != 20*time.Second || s.Attacher.Timeout != 6*time.Minute || s.Snapshotter.Timeout != 20*time.Second ||
			s.Workers != 7 || s.Resizer.Workers != 3 || s.Attacher.Workers != 7 {
			t.Errorf("%v: timeouts %s %s %s, workers %d %d %d", args, s.Timeout, s.Attacher.Timeout, s.Snapshotter.Timeout,
				s.Workers, s.Resizer.Workers, s.Attacher.Workers)
		}
	}
}

// OC-4, OC-9: the names of the KEP and of its proof of concept are accepted.
func TestNamesOfTheKEP(t *testing.T) {
	s := New()
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.AddFlags(f)
	for name := range strings.FieldsSeq(`controllers kubelet-registration-path csi-address leader-election
		leader-election-namespace feature-gates kube-api-qps kube-api-burst attacher-kube-api-qps attacher-kube-api-burst
		attacher-timeout provisioner-timeout resizer-timeout snapshotter-timeout node-driver-registrar-timeout
		attacher-max-entries attacher-reconcile-sync attacher-max-grpc-log-length attacher-worker-threads
		attacher-default-fstype attacher-retry-interval-start attacher-retry-interval-max
		snapshotter-snapshot-name-prefix snapshotter-snapshot-name-uuid-length snapshotter-worker-threads
		snapshotter-extra-create-metadata snapshotter-node-deployment snapshotter-groupsnapshot-name-prefix
		snapshotter-groupsnapshot-name-uuid-length resizer-handle-volume-inuse-error resizer-extra-modify-metadata
		resizer-resize-timeout resizer-modify-timeout provisioner-volume-name-prefix provisioner-volume-name-uuid-length
		provisioner-extra-create-metadata provisioner-strict-topology provisioner-immediate-topology
		provisioner-enable-capacity provisioner-capacity-ownerref-level provisioner-node-deployment
		provisioner-cloning-protection-threads provisioner-prevent-volume-mode-conversion
		provisioner-controller-publish-readonly provisioner-snapshot-orphan-sweep-interval enable-pprof
		livenessprobe-probe-timeout livenessprobe-health-port node-driver-registrar-health-port health-port`) {
		if f.Lookup(name) == nil {
			t.Errorf("OC-9: the flag --%s is not accepted", name)
		}
	}
}

// OC-5: the lease of csi-provisioner is left to another program where the provisioner does not run.
func TestLease(t *testing.T) {
	t.Setenv("NODE_NAME", "n1")
	const ofNode = "--node --node-deployment --leader-election --kubelet-registration-path=/csi.sock"
	for args, want := range map[string]string{
		ofNode:                                "csi-example-com-n1",
		ofNode + " --without=provisioner":     "external-snapshotter-leader-csi-example-com-n1",
		ofNode + " --controllers=snapshotter": "external-snapshotter-leader-csi-example-com-n1",
		"":                                    "csi-example-com",
		"--without=attacher":                  "csi-example-com",
		"--without=provisioner":               "external-attacher-leader-csi-example-com",
		"--without=attacher,provisioner":      "external-resizer-csi-example-com",
		"--controllers=snapshotter,resizer":   "external-resizer-csi-example-com",
		"--controllers=health-monitor":        "external-health-monitor-leader-csi-example-com",
	} {
		s := New()
		if err := rolestest.Parse(s, strings.Fields(args)...); err != nil {
			t.Fatal(err)
		}
		if lease := s.hostRole().Lease("csi.example.com"); lease != want {
			t.Errorf("%s: the lease is %s, want %s", args, lease, want)
		}
	}
}

// OC-3, OC-8: which components run.
func TestComponents(t *testing.T) {
	t.Setenv("NODE_NAME", "node")
	const path = " --kubelet-registration-path=/csi.sock"
	for _, tc := range []struct{ args, want, problem string }{
		{"", "provisioner attacher resizer snapshotter health-monitor livenessprobe", ""},
		{"--without=snapshotter,livenessprobe", "provisioner attacher resizer health-monitor", ""},
		{"--without=provisioner", "attacher resizer snapshotter health-monitor livenessprobe", ""},
		{"--without=provisioner --without=attacher,resizer,snapshotter", "health-monitor livenessprobe", ""},
		{"--without=health-monitor,livenessprobe", "provisioner attacher resizer snapshotter", ""},
		{"--controllers=health-monitor", "health-monitor", ""},
		{"--node --node-deployment --controllers=health-monitor", "health-monitor", "work for the whole cluster"},
		{"--snapshot-metadata --tls-cert=c --tls-key=k", "provisioner attacher resizer snapshotter health-monitor livenessprobe snapshot-metadata", ""},
		{"--snapshot-metadata", "provisioner attacher resizer snapshotter health-monitor livenessprobe snapshot-metadata", "--tls-cert: missing"},
		{"--snapshot-metadata --without=snapshot-metadata", "provisioner attacher resizer snapshotter health-monitor livenessprobe", ""},
		{"--snapshot-metadata --controllers=attacher --tls-cert=c --tls-key=k", "attacher snapshot-metadata", ""},
		{"--snapshot-metadata --node --tls-cert=c --tls-key=k" + path, "node-driver-registrar livenessprobe snapshot-metadata", "works for the whole cluster"},
		{"--node" + path, "node-driver-registrar livenessprobe", ""},
		{"--node --node-deployment" + path, "provisioner snapshotter node-driver-registrar livenessprobe", ""},
		{"--node --node-deployment --without=snapshotter" + path, "provisioner node-driver-registrar livenessprobe", ""},
		{"--node --without=node-driver-registrar", "livenessprobe", ""},
		{"--controllers=attacher,provisioner", "provisioner attacher", ""},
		{"--controllers=node-driver-registrar" + path, "node-driver-registrar", ""},
		{"--controllers=attacher, resizer", "attacher resizer", ""},
		{"--without=attacher, resizer", "provisioner snapshotter health-monitor livenessprobe", ""},
		{"--without= provisioner,attacher ", "resizer snapshotter health-monitor livenessprobe", ""},
		{"--controllers=attacher, resizer --without= resizer", "attacher", ""},
		{"--controllers=attacher --without=attacher", "", "nothing is left"},
		{"--controllers=Attacher,other", "", "unknown controllers: Attacher, other"},
		{"--without=registrar", "provisioner attacher resizer snapshotter health-monitor livenessprobe", "unknown controllers: registrar"},
		{"--node", "node-driver-registrar livenessprobe", "--kubelet-registration-path: missing"},
		{"--node-deployment", "provisioner attacher resizer snapshotter health-monitor livenessprobe", "give --node"},
		{"--node --node-deployment --controllers=attacher", "attacher", "work for the whole cluster"},
		{"--node --snapshotter-node-deployment --controllers=snapshotter", "snapshotter", "give --node-deployment for both"},
		{"--node --node-deployment --snapshotter-node-deployment=false --controllers=snapshotter", "snapshotter", "give --node-deployment for both"},
		{"--node --provisioner-node-deployment --snapshotter-node-deployment --controllers=snapshotter", "snapshotter", ""},
		{"--node --provisioner-node-deployment --controllers=provisioner", "provisioner", ""},
		{"--resizer-node-deployment --controllers=resizer", "resizer", "leave the flag out"},
		{"--node --node-deployment --snapshot-controller --controllers=snapshotter", "snapshotter", "without --snapshot-controller here"},
		{"--controllers=snapshotter --snapshot-name-uuid-length=33", "snapshotter", "--snapshot-name-uuid-length=33"},
		{"--controllers=attacher --max-entries=-1", "attacher", "--max-entries=-1"},
	} {
		s := New()
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		s.AddFlags(f)
		if err := f.Parse(arguments(tc.args)); err != nil {
			t.Fatal(err)
		}
		err := s.Validate()
		if (tc.problem == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.problem) {
			t.Errorf("%s: %v, want %q", tc.args, err, tc.problem)
		}
		if got := strings.Join(s.running(), " "); got != tc.want {
			t.Errorf("%s: %s run, want %s", tc.args, got, tc.want)
		}
	}
}

// arguments splits a command line at its flags.
func arguments(line string) (args []string) {
	for part := range strings.SplitSeq(line, "--") {
		if part = strings.TrimSpace(part); part != "" {
			args = append(args, "--"+part)
		}
	}
	return args
}

// OC-6, OC-12: a component that fails or panics starts again, and the others are not concerned.
func TestComponentsStartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		runs := 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			supervise(ctx, "registrar", func(ctx context.Context) error {
				switch runs++; runs {
				case 1:
					return errors.New("no folder")
				case 2:
					panic("nil map")
				}
				<-ctx.Done()
				return nil
			})
		}()
		time.Sleep(3 * restartAfter)
		cancel()
		<-done
		if runs != 3 {
			t.Errorf("%d runs", runs)
		}
	})
}
