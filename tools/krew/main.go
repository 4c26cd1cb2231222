package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "krew:", err)
		os.Exit(1)
	}
}

// release is what the archives are made from.
type release struct {
	version, out, license string
	created               time.Time
	binaries              string
}

func run(args []string) error {
	var r release
	var created int64
	flags := flag.NewFlagSet("krew", flag.ContinueOnError)
	flags.StringVar(&r.version, "version", "", "version of the plugin")
	flags.Int64Var(&created, "created", 0, "time in the archives, in seconds since 1970; that of the commit")
	flags.StringVar(&r.license, "license", "LICENSE", "file with the license, which is in every archive")
	flags.StringVar(&r.out, "out", "", "folder for the archives, the checksums and the manifest")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if r.version == "" || r.out == "" || flags.NArg() != 1 {
		return errors.New("-version, -out and the folder of the binaries are needed")
	}
	r.created, r.binaries = time.Unix(created, 0).UTC(), flags.Arg(0)
	return r.write()
}

// write writes everything into the folder.
func (r release) write() error {
	files, err := os.ReadDir(r.binaries)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o750); err != nil {
		return err
	}
	var archives []archive
	for _, file := range files {
		system, arch, ok := strings.Cut(file.Name(), "-")
		if !ok {
			return fmt.Errorf("%s is not called OS-ARCH", file.Name())
		}
		a, err := r.pack(system, arch)
		if err != nil {
			return err
		}
		archives = append(archives, a)
	}
	slices.SortFunc(archives, func(a, b archive) int { return strings.Compare(a.file, b.file) })
	var sums strings.Builder
	for _, a := range archives {
		fmt.Fprintf(&sums, "%s  %s\n", a.sum, a.file)
	}
	manifest, err := yaml.Marshal(r.manifest(archives))
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(sums.String()), 0o600),
		os.WriteFile(filepath.Join(r.out, "purser.yaml"), manifest, 0o600),
	)
}
