package containers

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path"

	"github.com/purser-csi/purser/internal/cluster/kubelet"
)

// Shell is the image of the pods of `purser check`, by default.
const Shell = "docker.io/library/busybox:1.37"

// applets are the commands that a pod of `purser check` runs.
var applets = []string{"sh", "dd", "sync", "sha256sum", "cut", "sleep"}

// ShellImage returns an image with the busybox of this machine under the name of Shell, as an archive.
// The busybox must be static: the image has no libraries.
func ShellImage() ([]byte, error) {
	found, err := exec.LookPath("busybox")
	if err != nil {
		return nil, fmt.Errorf("%w; Debian has it in busybox-static", err)
	}
	program, err := os.ReadFile(found)
	if err != nil {
		return nil, err
	}
	file, err := elf.Open(found)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	libraries, err := file.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("read the libraries of %s: %w", found, err)
	}
	if len(libraries) > 0 {
		return nil, fmt.Errorf("%s needs the libraries %q; Debian has a static one in busybox-static", found, libraries)
	}
	files := map[string][]byte{}
	for _, name := range applets {
		files[path.Join("bin", name)] = program
	}
	return kubelet.ImageOf(Shell, files, "/bin/sh")
}
