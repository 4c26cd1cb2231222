package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// These tests use shell scripts in place of the components: what happens when a start goes wrong
// needs no real ones.

const (
	idle      = "#!/bin/sh\nexec /bin/sleep 3600\n"
	portTaken = "#!/bin/sh\necho run >>\"$0.runs\"\necho 'listen tcp 127.0.0.1:1: bind: address already in use'\nexit 1\n"
	broken    = "#!/bin/sh\necho run >>\"$0.runs\"\necho 'panic: out of rope'\nexit 2\n"
)

// scripted is a configuration in which etcd and the API server are these scripts.
func scripted(t *testing.T, etcd, apiServer string) Config {
	t.Helper()
	bin := t.TempDir()
	cfg := Config{Dir: t.TempDir(), Binaries: Binaries{}}
	for c, text := range map[Component]string{Etcd: etcd, APIServer: apiServer} {
		path := filepath.Join(bin, string(c))
		program(t, path, text)
		cfg.Binaries[string(c)] = path
	}
	return cfg
}

func TestComponentThatFailsToStart(t *testing.T) {
	cfg := scripted(t, broken, idle)
	_, err := Start(t.Context(), cfg)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"etcd ended", "exit status 2", "out of rope", layout(cfg.Dir).log(Etcd)} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
	if got := runs(t, cfg, Etcd); got != 1 {
		t.Errorf("etcd ran %d times, want 1: only a lost port is worth another attempt", got)
	}
	mustBeFree(t, cfg.Dir)
}

func TestLostPortIsChosenAgain(t *testing.T) {
	cfg := scripted(t, idle, portTaken)
	_, err := Start(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Fatalf("error = %v, want the last attempt's", err)
	}
	if got := runs(t, cfg, APIServer); got != portAttempts {
		t.Errorf("%d attempts, want %d", got, portAttempts)
	}
	mustBeFree(t, cfg.Dir)
}

func TestCancelledStartLeavesNothing(t *testing.T) {
	cfg := scripted(t, idle, idle)
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		eventually(t, func() bool { _, err := os.Stat(layout(cfg.Dir).log(APIServer)); return err == nil })
		cancel(enough)
	}()
	_, err := Start(ctx, cfg)
	if !errors.Is(err, enough) {
		t.Errorf("error = %v, want the reason of the cancellation", err)
	}
	mustBeFree(t, cfg.Dir)
}

func TestMissingBinaryLeavesNothing(t *testing.T) {
	cfg := scripted(t, idle, idle)
	cfg.Binaries[string(APIServer)] = "/nonexistent/kube-apiserver"
	_, err := Start(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "starting kube-apiserver") {
		t.Errorf("error = %v", err)
	}
	mustBeFree(t, cfg.Dir)
}

func TestCallersLockStaysTheirs(t *testing.T) {
	cfg := scripted(t, broken, idle)
	cfg.Lock = lockDir(t, cfg.Dir)
	if _, err := Start(t.Context(), cfg); err == nil {
		t.Fatal("no error")
	}
	if free(cfg.Dir) {
		t.Error("the caller's lock is gone")
	}
	release(t, cfg.Lock)
	mustBeFree(t, cfg.Dir)
}

func runs(t *testing.T, cfg Config, c Component) int {
	t.Helper()
	text, err := os.ReadFile(cfg.Binaries[string(c)] + ".runs")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "run")
}

// mustBeFree fails when a process, such as a child that was left behind, holds the folder.
func mustBeFree(t *testing.T, dir string) {
	t.Helper()
	if !free(dir) {
		t.Errorf("%s is still in use: a component was left behind", dir)
	}
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("it did not happen in time")
			return
		}
	}
}
