package main

import (
	"slices"
	"strings"
	"testing"
)

// The plugin has only the read-only commands, and its help says `kubectl purser`.
func TestCommand(t *testing.T) {
	root := command()
	var names []string
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	if !slices.Equal(names, []string{"dump", "explain", "tree"}) {
		t.Errorf("commands %v", names)
	}
	var out strings.Builder
	root.SetOut(&out)
	root.SetArgs([]string{"explain", "--help"})
	if err := root.Execute(); err != nil || !strings.Contains(out.String(), "kubectl purser explain [KIND/NAME]") {
		t.Errorf("%v: %s", err, out.String())
	}
	root = command()
	root.SetArgs([]string{"explain", "--from", "nothing-is-here"})
	root.SetErr(&out)
	if err := root.Execute(); err == nil {
		t.Error("a dump that does not exist is no error")
	}
}
