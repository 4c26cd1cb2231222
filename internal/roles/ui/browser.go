package ui

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/term"
)

// openBrowser opens an address in the user's browser. Without a terminal or a screen it does
// nothing: the address is printed.
func openBrowser(ctx context.Context, out io.Writer, address string) {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return
	}
	name, args := browserOf(runtime.GOOS, os.Getenv)
	if name == "" {
		return
	}
	if err := exec.CommandContext(ctx, name, append(args, address)...).Start(); err != nil {
		fmt.Fprintf(out, "No browser was opened (%v); open the address above.\n", err)
	}
}

// browserOf returns the command that opens an address; empty where there is no screen.
func browserOf(system string, env func(string) string) (name string, args []string) {
	switch system {
	case "darwin":
		return "open", nil
	case "windows":
		return "rundll32", []string{"url.dll,FileProtocolHandler"}
	}
	if env("DISPLAY") == "" && env("WAYLAND_DISPLAY") == "" {
		return "", nil
	}
	return "xdg-open", nil
}
