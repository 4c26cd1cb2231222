package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", "", "folder for the site; it is made anew")
	flag.Parse()
	if err := run(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func run(out string, args []string) error {
	if out == "" || len(args) != 1 {
		return errors.New("-out and the folder of the repository are needed")
	}
	files, err := build(os.DirFS(args[0]))
	if err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	for name, content := range files {
		path := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // readable by all users
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil { //nolint:gosec // the same
			return err
		}
	}
	fmt.Printf("%d files in %s; open %s\n", len(files), out, filepath.Join(out, "index.html"))
	return nil
}
