package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/bench/audited"
	"github.com/purser-csi/purser/test/bench/folder"
	"github.com/purser-csi/purser/test/scripted"
)

const (
	driverName = "resize.example"
	account    = "csi-resizer"
	class      = "grows"
)

func main() { os.Exit(run()) }

func run() int {
	var m measurement
	flag.IntVar(&m.claims, "claims", 200, "claims that grow at once")
	flag.IntVar(&m.idle, "idle", 10, "claims that grow one after the other")
	flag.IntVar(&m.rounds, "rounds", 3, "rounds, in which the two take turns")
	keep := flag.Bool("keep", false, "keep the folder with the logs")
	flag.Parse()
	return folder.Main("bench-resize", *keep, m.bench)
}

// driver expands at once, and leaves nothing to the node.
type driver struct {
	scripted.Driver
	calls atomic.Int64
}

// ControllerExpandVolume implements csi.ControllerServer.
func (d *driver) ControllerExpandVolume(
	_ context.Context, r *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	d.calls.Add(1)
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}, nil
}

// bench plays the rounds, and compares the medians of the rates.
func (m *measurement) bench(ctx context.Context, bin, dir string) (err error) {
	expands := []csi.ControllerServiceCapability_RPC_Type{csi.ControllerServiceCapability_RPC_EXPAND_VOLUME}
	m.driver = &driver{Driver: scripted.Driver{Name: driverName, Controller: expands}}
	socket := filepath.Join(dir, "csi.sock")
	server, err := scripted.Serve(ctx, socket, m.driver)
	if err != nil {
		return err
	}
	defer server.Stop()
	if m.Server, err = audited.Start(ctx, bin, dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := m.prepare(ctx); err != nil {
		return err
	}
	rates := map[string][]float64{}
	both := contenders(socket)
	for round := range m.rounds {
		for _, one := range both {
			if missing := m.Missing(one); missing != "" {
				return fmt.Errorf("there is no %s", missing)
			}
			fmt.Printf("\nround %d, %s\n", round+1, one.Name)
			rate, err := m.measure(ctx, one)
			if err != nil {
				return fmt.Errorf("%s: %w", one.Name, err)
			}
			rates[one.Name] = append(rates[one.Name], rate)
		}
	}
	ours, upstream := median(rates[both[0].Name]), median(rates[both[1].Name])
	fmt.Printf("\nmedian of %d rounds: %s %.0f/s, %s %.0f/s, ratio %.2f\n",
		m.rounds, both[0].Name, ours, both[1].Name, upstream, ours/upstream)
	return nil
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// contenders are ours and upstream's, both with the workers of a large cluster.
func contenders(socket string) []audited.Contender {
	const workers = "--workers=100"
	return []audited.Contender{
		{Name: "ours", Programs: []audited.Program{
			{Name: "purser", Args: []string{"csi-resizer", workers}, Account: account, Socket: socket},
		}},
		{Name: "upstream, limits lifted", Programs: []audited.Program{{
			Name: "upstream-csi-resizer", Account: account, Socket: socket,
			Args: []string{workers, "--kube-api-qps=10000", "--kube-api-burst=10000"},
		}}},
	}
}

func (m *measurement) prepare(ctx context.Context) error {
	if err := m.Accounts(ctx, account); err != nil {
		return err
	}
	return m.Create(ctx, []client.Object{
		&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: driverName, AllowVolumeExpansion: new(true),
		},
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}},
	})
}
