package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

const usage = "the first argument is a command: key, assemble, push, verify or serve"

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet("release "+args[0], flag.ContinueOnError)
	switch args[0] {
	case "key":
		prefix := flags.String("out", "", "path of the keys without .key and .pub; neither may exist")
		if err := parse(flags, args[1:], "out"); err != nil {
			return err
		}
		return generateKey(*prefix, os.Getenv(passwordVariable), out)
	case "assemble":
		return assemble(flags, args[1:], out)
	case "push":
		var p pushing
		flags.StringVar(&p.from, "from", "", "folder of the release")
		flags.StringVar(&p.registry, "registry", "", "where to: HOST or HOST/PATH; names of images are added to it")
		flags.BoolVar(&p.insecure, "insecure", false, "speak HTTP with a registry that is not on this machine")
		if err := parse(flags, args[1:], "from", "registry"); err != nil {
			return err
		}
		return p.push(ctx, out)
	case "verify":
		return verify(ctx, flags, args[1:], out)
	case "serve":
		address := flags.String("address", "127.0.0.1:0", "loopback address; the first line of output is the one in use")
		if err := parse(flags, args[1:]); err != nil {
			return err
		}
		return serve(ctx, *address, out)
	}
	return fmt.Errorf("%q: %s", args[0], usage)
}

// parse refuses arguments that are no flags, and empty values of the flags that are needed.
func parse(flags *flag.FlagSet, args []string, needed ...string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s: is no flag", flags.Arg(0))
	}
	for _, name := range needed {
		if flags.Lookup(name).Value.String() == "" {
			return fmt.Errorf("-%s: missing", name)
		}
	}
	return nil
}

// byHand is the builder of a release that no workflow makes.
const byHand = project + "/blob/main/docs/releasing.md#by-hand"

// versions are semantic versions without build metadata: a tag of an image cannot have a plus sign.
var versions = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// commits are identifiers of git's objects.
var commits = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

func assemble(flags *flag.FlagSet, args []string, out io.Writer) error {
	var r release
	var created int64
	var key string
	var dirty bool
	flags.StringVar(&r.version, "version", "", "version, such as v1.2.3")
	flags.Int64Var(&created, "created", 0, "time in the archives, in seconds since 1970; that of the commit")
	flags.StringVar(&r.commit, "commit", "", "commit that the inputs were built from")
	flags.BoolVar(&dirty, "dirty", false, "the inputs were built from a tree with uncommitted changes")
	flags.StringVar(&r.builder, "builder", byHand, "identity of the builder in the provenance")
	flags.StringVar(&r.binaries, "binaries", "", "folder with purser-amd64 and purser-arm64, the programs for Linux")
	flags.StringVar(&r.images, "images", "", "folder with an OCI layout for each image, as tools/images writes it")
	flags.StringVar(&r.chart, "chart", "", "archive of the Helm chart")
	flags.StringVar(&r.plugin, "plugin", "", "folder with the archives of the plugin, as tools/krew writes it")
	flags.StringVar(&r.license, "license", "LICENSE", "file with the license, which is in every archive")
	flags.StringVar(&key, "key", "", "private key in PEM, also cosign's with its password in "+passwordVariable+"; empty: no signature")
	flags.StringVar(&r.out, "out", "", "folder for the release; it must not exist, or be empty")
	if err := parse(flags, args, "version", "commit", "binaries", "images", "chart", "plugin", "out"); err != nil {
		return err
	}
	if !versions.MatchString(r.version) {
		return fmt.Errorf("-version=%q: want a semantic version without build metadata, such as v1.2.3", r.version)
	}
	if !commits.MatchString(r.commit) {
		return fmt.Errorf("-commit=%q: want the full identifier of a commit (git rev-parse HEAD)", r.commit)
	}
	if dirty {
		if !strings.Contains(r.version, "-") {
			return fmt.Errorf("-version=%s: the tree has uncommitted changes; commit them, or give a pre-release such as %s-dev",
				r.version, r.version)
		}
		r.dirty = true
	}
	r.created = time.Unix(created, 0).UTC()
	if key != "" {
		var err error
		if r.signer, err = readKey(key, os.Getenv(passwordVariable)); err != nil {
			return fmt.Errorf("-key=%s: %w", key, err)
		}
	}
	if err := emptyFolder(r.out); err != nil {
		return fmt.Errorf("-out=%s: %w", r.out, err)
	}
	if err := r.write(); err != nil {
		return err
	}
	return r.report(out)
}

// emptyFolder makes a folder, which must not have anything in it.
func emptyFolder(path string) error {
	if entries, err := os.ReadDir(path); err == nil && len(entries) > 0 {
		return errors.New("is not empty; give another folder, or remove it")
	}
	return os.MkdirAll(path, 0o755) //nolint:gosec // readable by all users
}
