package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/tools/record"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: plugin-manager FOLDER REFUSE")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	manager := pluginmanager.NewPluginManager(os.Args[1], &record.FakeRecorder{})
	manager.AddHandler(registration.CSIPlugin, handler{refuse: os.Args[2]})
	manager.Run(ctx, ready{}, ctx.Done())
}

// handler prints what a kubelet would do with a driver.
type handler struct{ refuse string }

func (handler) ValidatePlugin(_ context.Context, name, endpoint string, versions []string) error {
	fmt.Println("validate", name, endpoint, versions)
	return nil
}

func (h handler) RegisterPlugin(_ context.Context, name, endpoint string, _ []string, _ *time.Duration) error {
	if reason, err := os.ReadFile(h.refuse); err == nil {
		fmt.Println("refuse", name)
		return errors.New(string(reason))
	}
	fmt.Println("register", name, endpoint)
	return nil
}

func (handler) DeRegisterPlugin(_ context.Context, name, _ string) { fmt.Println("deregister", name) }

// ready is the state of the sources of pods, which a plugin does not wait for.
type ready struct{}

func (ready) AddSource(string) {}
func (ready) AllReady() bool   { return true }
