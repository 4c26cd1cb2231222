package sidecars

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/test/bench/runner"
	"github.com/purser-csi/purser/test/e2e/stage"
	"github.com/purser-csi/purser/test/scripted"
)

const (
	driverName = "sidecars.example"
	account    = "sidecars"
	class      = "rests"
	calmTime   = 15 * time.Second // for what follows the first list: a look at each volume
)

// bench is the size of the cluster, and what the contenders took.
type bench struct {
	*runner.Run
	pairs int
	lines []string
}

// Workload is the memory of all sidecars of a driver.
func Workload() runner.Workload {
	b := &bench{}
	return runner.Workload{
		Name: "sidecars", Summary: "memory of all idle sidecars of a driver, ours and upstream's",
		Flags: b.flags, Prepare: b.prepare, Contenders: b.contenders, Play: b.play, Report: b.report,
		Driver: func() scripted.Server {
			return runner.NewDriver(driverName,
				csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
				csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
				csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
				csi.ControllerServiceCapability_RPC_EXPAND_VOLUME)
		},
	}
}

func (b *bench) flags(set *flag.FlagSet) {
	set.IntVar(&b.pairs, "pairs", 10000, "bound claims and volumes")
}

func (b *bench) prepare(ctx context.Context, r *runner.Run) error {
	b.Run = r
	if err := os.Mkdir(b.registration(), 0o700); err != nil {
		return err
	}
	if err := r.Administrators(ctx, account); err != nil {
		return err
	}
	if err := r.Install(ctx); err != nil {
		return err
	}
	return r.Create(ctx,
		&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: driverName, AllowVolumeExpansion: new(true),
		},
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}})
}

// registration is the folder that stands for that of a kubelet.
func (b *bench) registration() string { return filepath.Join(b.Dir, "registration") }

// The contenders.
const (
	ours      = "ours"
	upstreams = "upstream's"
)

// contenders are the containers beside the driver in the pod of its controller. Those of a node are
// started by measure.
func (*bench) contenders() []runner.Contender {
	const leases = "--leader-election-namespace=default"
	upstream := func(name string, args ...string) runner.Program {
		return runner.Program{Name: prefix + name, Account: account, Socket: true, Args: args}
	}
	return []runner.Contender{
		{Name: ours, Programs: []runner.Program{{
			Name: "purser", Account: account, Socket: true, HTTP: true, Ready: true, Args: []string{"sidecars", leases},
		}}},
		{Name: upstreams, Programs: []runner.Program{
			upstream("csi-provisioner", leases), upstream("csi-attacher"), upstream("csi-resizer"),
			upstream("csi-snapshotter"),
		}},
	}
}

const prefix = "upstream-"

// play measures each contender without volumes, and then with them.
func (b *bench) play(ctx context.Context, r *runner.Run) error {
	for _, many := range []bool{false, true} {
		if many {
			names := make([]string, b.pairs)
			for i := range names {
				names[i] = fmt.Sprintf("present-%06d", i)
			}
			if err := r.Pairs(ctx, driverName, class, names); err != nil {
				return err
			}
		}
		for _, one := range r.Contenders {
			if err := b.measure(ctx, one, many); err != nil {
				return fmt.Errorf("%s: %w", one.Name, err)
			}
		}
	}
	return nil
}

func (b *bench) measure(ctx context.Context, one runner.Contender, many bool) error {
	running, err := b.Launch(ctx, one)
	if err != nil {
		return err
	}
	defer running.Kill()
	var started []*stage.Program
	var programs []string
	for i, p := range running.Processes {
		started = append(started, p.Program)
		programs = append(programs, strings.TrimPrefix(one.Programs[i].Name, prefix))
	}
	others, names, err := b.startOfNode(one.Name)
	for _, p := range others {
		defer p.Kill()
	}
	if err != nil {
		return err
	}
	started, programs = append(started, others...), append(programs, names...)
	if err := runner.Pause(ctx, calmTime); err != nil {
		return err
	}
	var all runner.Memory
	var parts []string
	for i, p := range started {
		used, err := runner.UsageOf(p.Pid())
		if err != nil {
			return fmt.Errorf("%s: %w", programs[i], err)
		}
		all.Now, all.Anonymous = all.Now+used.Now, all.Anonymous+used.Anonymous
		parts = append(parts, fmt.Sprintf("%s %.1f", programs[i], megabytes(used.Now)))
	}
	pairs := 0
	if many {
		pairs = b.pairs
	}
	b.lines = append(b.lines, fmt.Sprintf("%-12s%8d volumes%8.1f MB, anonymous %.1f: %s",
		one.Name, pairs, megabytes(all.Now), megabytes(all.Anonymous), strings.Join(parts, ", ")))
	return nil
}

func megabytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// startOfNode starts the programs of a contender beside the driver on a node. Upstream's take part if
// their files are in the folder of the programs: there are no Go modules of them.
func (b *bench) startOfNode(contender string) (started []*stage.Program, names []string, err error) {
	registrar := []string{"--kubelet-registration-path=" + b.Socket(), "--plugin-registration-path=" + b.registration()}
	programs := []struct {
		name string
		args []string
	}{
		{"purser", append([]string{"sidecars", "--node"}, registrar...)},
	}
	if contender == upstreams {
		programs[0].name, programs[0].args = prefix+"csi-node-driver-registrar", registrar
		programs = append(programs, programs[0])
		programs[1].name, programs[1].args = prefix+"livenessprobe", []string{"--http-endpoint=127.0.0.1:0"}
	}
	for _, program := range programs {
		if _, err := os.Stat(filepath.Join(b.Bin, program.name)); err != nil {
			fmt.Fprintf(os.Stderr, "%s takes part without %s: %v\n", contender, program.name, err)
			continue
		}
		p, err := b.Exec(contender, program.name, append(program.args, "--csi-address="+b.Socket()))
		if err != nil {
			return started, names, err
		}
		started, names = append(started, p), append(names, strings.TrimPrefix(program.name, prefix)+" on the node")
	}
	return started, names, nil
}

func (b *bench) report() string {
	return "\nResident memory without work\n" + strings.Join(b.lines, "\n") + "\n"
}
