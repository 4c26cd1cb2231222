package monitoring

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// pool is the driver of Purser on a small filesystem, which fills up.
type pool struct {
	*scene

	dir    string // empty if this user may not mount one
	driver *exec.Cmd
}

const poolSize = 400 << 20

// smallPool starts the driver and creates two volumes, which may take more than there is. Without root the
// alerts about pools are not caused.
func (s *scene) smallPool() *pool {
	s.Helper()
	p := &pool{scene: s}
	dir := filepath.Join(s.dir, "pool")
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		err = syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", poolSize))
	}
	if err != nil {
		for _, alert := range []string{"PurserPoolNearlyFull", "PurserPoolOvercommitted"} {
			needs[alert] = "needs root, to mount a small filesystem: " + err.Error()
		}
		return p
	}
	s.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	p.dir = dir
	socket := filepath.Join(s.dir, "d.sock")
	p.driver = s.role("driver-of-pool", "driver", "--state-dir="+dir, "--backend=loopfile", "--loopfile-over-commit=3",
		"--endpoint=unix://"+socket, "--node-id=pool")
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.Fatal(err)
	}
	defer connection.Close()
	for _, name := range []string{"one", "two"} {
		s.eventually(
			"a volume of the pool", time.Minute, func() error { return createVolume(s.Context(), connection, name) },
		)
	}
	return p
}

func createVolume(ctx context.Context, connection *grpc.ClientConn, name string) error {
	_, err := csi.NewControllerClient(connection).CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: poolSize * 3 / 4},
		VolumeCapabilities: []*csi.VolumeCapability{{
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4"}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		}},
	})
	return err
}

// fill takes 32 MiB of the pool, until nearly nothing is left.
func (p *pool) fill(i int) {
	const part = 32 << 20
	if p.dir == "" || i*part > poolSize*92/100 {
		return
	}
	if err := os.WriteFile(filepath.Join(p.dir, fmt.Sprint("ballast-", i)), make([]byte, part), 0o600); err != nil {
		p.Log(err)
	}
}

// end stops the driver.
func (p *pool) end() {
	if p.driver != nil {
		p.stop(p.driver)
	}
}
