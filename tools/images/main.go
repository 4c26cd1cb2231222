package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// options are what the images are made from.
type options struct {
	version  string
	out      string
	created  time.Time
	binaries map[string]string // by architecture
	lock     string            // the packages of the driver's image; empty for none of it
	packages string            // folder with these packages
}

// architectures are those of the images, in the order of the arguments.
var architectures = []string{"amd64", "arm64"}

func run() error {
	var o options
	var created int64
	flag.StringVar(&o.version, "version", "v0.0.0-dev", "version in the labels")
	flag.StringVar(&o.out, "out", "", "folder for the layouts; it must not exist, or be empty")
	flag.Int64Var(&created, "created", 0, "time in the images, in seconds since 1970; that of the commit")
	flag.StringVar(&o.lock, "lock", "", "file with the Debian packages of the driver's image, which is written too")
	flag.StringVar(&o.packages, "packages", "", "folder with these packages, as packages.sh fetches them")
	flag.Parse()
	if o.out == "" || flag.NArg() != len(architectures) {
		return errors.New("-out and a binary for each of amd64 and arm64 are needed")
	}
	o.created = time.Unix(created, 0).UTC()
	o.binaries = map[string]string{}
	for i, arch := range architectures {
		o.binaries[arch] = flag.Arg(i)
	}
	if entries, err := os.ReadDir(o.out); err == nil && len(entries) > 0 {
		return fmt.Errorf("-out=%s: is not empty; give another folder, or remove it", o.out)
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil { //nolint:gosec // readable by all users
		return err
	}
	if err := o.write(); err != nil {
		return err
	}
	return checksums(o.out, filepath.Join(o.out, "SHA256SUMS"))
}
