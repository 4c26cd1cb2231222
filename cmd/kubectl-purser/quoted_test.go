package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purser-csi/purser/test/quoted"
)

// The commands of the plugin that the pages quote exist, with their flags.
func TestQuotedCommands(t *testing.T) {
	commands, err := quoted.All(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, c := range commands {
		if c.Program() != "kubectl purser" || len(c.Args()) == 0 {
			continue
		}
		found++
		// With --help in front all flags are parsed, and nothing is run.
		args := append([]string{c.Args()[0], "--help"}, c.Args()[1:]...)
		root := command()
		root.SetArgs(args)
		root.SetOut(io.Discard)
		if err := root.Execute(); err != nil && (!c.Inline || !strings.Contains(err.Error(), "flag needs an argument")) {
			t.Errorf("%s: %v", c.At(), err)
		}
	}
	if found < 2 {
		t.Errorf("the pages quote %d commands of the plugin", found)
	}
}
