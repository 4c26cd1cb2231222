package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	kubelet "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/purser-csi/purser/internal/telemetry"
)

// plugins watches plugins_registry for the registration sockets of drivers, as a kubelet does
// (5.12): a socket that appears registers a driver, and one that goes ends its registration.
type plugins struct {
	*drivers

	mu      sync.Mutex
	changes chan struct{}      // is closed and replaced when the Node has changed
	sockets map[string]*plugin // by path
}

// plugin is one registration socket that is being worked on. A socket that was created again under
// its name is another one.
type plugin struct {
	made   fs.FileInfo
	cancel context.CancelFunc
	done   chan struct{}
	name   string // of the driver; empty before it is registered
}

// rescan is how often the folder is read without a notification.
const rescan = 10 * time.Second

// The pause between two attempts to register a driver grows from the first to the second.
const (
	firstRegisterPause = 500 * time.Millisecond
	mostRegisterPause  = 30 * time.Second
)

// nodeChanged has every registration tried again that waits for the Node object.
func (p *plugins) nodeChanged() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.changes)
	p.changes = make(chan struct{})
}

func (p *plugins) nextChange() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changes
}

// watch serves registrations until ctx ends.
func (p *plugins) watch(ctx context.Context) error {
	dir := p.layout.Registrations()
	if err := makeDirs(dir); err != nil {
		return err
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	defer watcher.Close()
	if err := watcher.Add(dir); err != nil {
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	defer p.stop()
	for {
		p.scan(ctx, dir)
		select {
		case <-ctx.Done():
			return nil
		case <-watcher.Events:
		case err := <-watcher.Errors:
			logr.FromContextOrDiscard(ctx).Error(err, "watch the registration sockets", "folder", dir)
		case <-p.Clock.After(rescan):
		}
	}
}

func (p *plugins) stop() {
	p.mu.Lock()
	all := p.sockets
	p.sockets = map[string]*plugin{}
	p.mu.Unlock()
	for _, one := range all {
		one.cancel()
		<-one.done
	}
}

// scan compares the sockets that are there with those that are worked on.
func (p *plugins) scan(ctx context.Context, dir string) {
	there := map[string]fs.FileInfo{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "read the registration sockets", "folder", dir)
		return
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && info.Mode()&fs.ModeSocket != 0 && !strings.HasPrefix(entry.Name(), ".") {
			there[filepath.Join(dir, entry.Name())] = info
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for path, one := range p.sockets {
		if info, ok := there[path]; ok && os.SameFile(info, one.made) && info.ModTime().Equal(one.made.ModTime()) {
			continue
		}
		one.cancel()
		delete(p.sockets, path)
		if _, again := there[path]; !again {
			go p.deregister(context.WithoutCancel(ctx), one)
		}
	}
	for path, info := range there {
		if p.sockets[path] != nil {
			continue
		}
		serving, cancel := context.WithCancel(ctx)
		one := &plugin{made: info, cancel: cancel, done: make(chan struct{})}
		p.sockets[path] = one
		go p.serve(serving, path, one)
	}
}

// serve registers the driver behind a socket, and tries again until it is registered or gone.
func (p *plugins) serve(ctx context.Context, path string, one *plugin) {
	defer close(one.done)
	log := logr.FromContextOrDiscard(ctx).WithValues("socket", path)
	for pause := firstRegisterPause; ctx.Err() == nil; pause = min(2*pause, mostRegisterPause) {
		changed := p.nextChange()
		name, err := p.register(ctx, path)
		if err == nil {
			p.mu.Lock()
			one.name = name
			p.mu.Unlock()
			log.Info("registered the csi driver", telemetry.KeyDriver, name)
			return
		}
		log.Info("cannot register the csi driver yet", "problem", err.Error(), telemetry.KeyRetry, pause.String())
		select {
		case <-ctx.Done():
		case <-changed:
		case <-p.Clock.After(pause):
		}
	}
}

// register is 5.12: it gets the driver's name, CSI socket and node id, and notifies the driver
// whether it is registered.
func (p *plugins) register(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	service := kubelet.NewRegistrationClient(conn)
	info, err := service.GetInfo(ctx, &kubelet.InfoRequest{})
	if err != nil {
		return "", fmt.Errorf("GetInfo: %w", err)
	}
	if info.GetType() != kubelet.CSIPlugin {
		return "", fmt.Errorf("plugin %q is a %s, and only CSI drivers are registered", info.GetName(), info.GetType())
	}
	failed := p.registerDriver(ctx, info, path)
	status := &kubelet.RegistrationStatus{PluginRegistered: failed == nil}
	if failed != nil {
		status.Error = failed.Error()
	}
	if _, err := service.NotifyRegistrationStatus(ctx, status); err != nil {
		return "", errors.Join(failed, fmt.Errorf("NotifyRegistrationStatus: %w", err))
	}
	return info.GetName(), failed
}

func (p *plugins) registerDriver(ctx context.Context, info *kubelet.PluginInfo, path string) error {
	endpoint := info.GetEndpoint()
	if endpoint == "" {
		endpoint = path
	}
	if !slices.ContainsFunc(info.GetSupportedVersions(), func(v string) bool {
		return strings.HasPrefix(strings.TrimPrefix(v, "v"), "1.")
	}) {
		return fmt.Errorf(
			"driver %s supports the versions %q, and a version 1.x of CSI is needed", info.GetName(),
			info.GetSupportedVersions(),
		)
	}
	r, err := p.connect(ctx, info.GetName(), endpoint)
	if err != nil {
		return err
	}
	if err := p.csiNode.register(ctx, r); err != nil {
		return errors.Join(err, r.conn.Close())
	}
	return nil
}

// deregister removes a driver whose socket is gone. Its volumes stay mounted.
func (p *plugins) deregister(ctx context.Context, one *plugin) {
	<-one.done
	p.mu.Lock()
	name := one.name
	p.mu.Unlock()
	if name == "" {
		return
	}
	log := logr.FromContextOrDiscard(ctx)
	if err := p.csiNode.deregister(ctx, name); err != nil {
		log.Error(err, "cannot remove the entry of a driver that is gone", telemetry.KeyDriver, name)
		return
	}
	log.Info("the csi driver is gone", telemetry.KeyDriver, name)
}
