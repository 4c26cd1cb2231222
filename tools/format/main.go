package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	list := flag.Bool("l", false, "list the files that would change, and change none")
	flag.Parse()
	changed, err := run(flag.Args(), *list)
	if err != nil {
		fmt.Fprintln(os.Stderr, "format:", err)
		os.Exit(2)
	}
	if *list && changed > 0 {
		os.Exit(1)
	}
}

// run formats the Go files below the folders, and returns how many it changed or would change.
func run(folders []string, list bool) (changed int, err error) {
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			before, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			after, err := breakLines(path, before)
			if err != nil || bytes.Equal(before, after) {
				return err
			}
			changed++
			fmt.Println(path)
			if list {
				return nil
			}
			return os.WriteFile(path, after, 0o600) // an existing file keeps its mode
		})
		if err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// source is a file with its syntax.
type source struct {
	text  []byte
	files *token.FileSet
	tree  *ast.File
}

func parse(path string, text []byte) (source, error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, path, text, parser.ParseComments|parser.SkipObjectResolution)
	return source{text, files, tree}, err
}

func (s source) offset(p token.Pos) int { return s.files.Position(p).Offset }
