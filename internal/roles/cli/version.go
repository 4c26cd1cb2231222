package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Build is what `version` prints of a program.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"` // empty if the build did not record one
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Libraries are the versions of the modules that decide what is spoken with others.
	Libraries map[string]string `json:"libraries"`
}

// spoken are the modules whose version says which Kubernetes and which CSI a program knows.
var spoken = []string{"k8s.io/api", "k8s.io/client-go", "github.com/container-storage-interface/spec"}

func buildOf(version string, info *debug.BuildInfo) Build {
	b := Build{
		Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Libraries: map[string]string{},
	}
	if info == nil {
		return b
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Commit = setting.Value
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
	for _, name := range spoken {
		for _, module := range info.Deps {
			if module.Path == name {
				b.Libraries[name] = module.Version
			}
		}
	}
	return b
}

// VersionCommand returns the command `version`, which asks no cluster.
func VersionCommand(version string) *cobra.Command {
	output := ""
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the build, and which Kubernetes and CSI it was built with",
		Args:  NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			info, _ := debug.ReadBuildInfo()
			return buildOf(version, info).print(c.OutOrStdout(), output)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "text", "`format` of the answer: text or json")
	SetExitCodes(c, ExitCode{0, "printed"}, ExitCode{exitSyntax, "the command line is wrong"})
	return c
}

func (b Build) print(out io.Writer, output string) error {
	switch output {
	case "json":
		text, err := json.MarshalIndent(b, "", "  ")
		if err != nil {
			return fmt.Errorf("write the version: %w", err)
		}
		fmt.Fprintln(out, string(text))
		return nil
	case "text":
	default:
		return SyntaxError{Err: fmt.Errorf("--output=%s: expected text or json", output)}
	}
	commit := "not recorded"
	if b.Commit != "" {
		commit = b.Commit
	}
	if b.Modified {
		commit += ", with changes"
	}
	fmt.Fprintf(out, "version    %s\ncommit     %s\nbuilt by   %s for %s\n", b.Version, commit, b.Go, b.Platform)
	for _, name := range spoken {
		if v := b.Libraries[name]; v != "" {
			fmt.Fprintf(out, "%-10s %s\n", label[name], v)
		}
	}
	return nil
}

var label = map[string]string{
	"k8s.io/api": "API", "k8s.io/client-go": "client-go", "github.com/container-storage-interface/spec": "CSI",
}
