package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	populate "github.com/purser-csi/purser/internal/populate/rules"
)

// Target is the volume as the pod has it.
type Target struct {
	Path  string // of the device, or of the folder of the filesystem
	Block bool
	Size  int64 // the most bytes that may be written; 0 for no limit but the volume's
}

// Progress is how much of the data is written.
type Progress = populate.Progress

// Function writes the data of a source to a target. It calls progress as often as it likes. A repetition
// after a failure, with the same source and the same volume, may go on where the last one was. An error has
// no secret value: it is in an event of the user's claim.
type Function[S any] func(ctx context.Context, source S, target Target, progress func(Progress)) error

// Config says where a pod reports to.
type Config struct {
	Target Target
	// ProgressAddress serves the progress; empty for none.
	ProgressAddress string
	TerminationLog  string         // file of the termination message; empty for none
	Listened        func(net.Addr) // receives the address of the progress; may be nil
}

// The kubelet keeps 4096 bytes of a message.
const longestProblem = 3000

// Path of the progress on the server of a pod.
const progressPath = "/progress"

// Run calls the function and reports its progress and its end.
func Run[S any](ctx context.Context, cfg Config, source S, write Function[S]) error {
	var progress atomic.Pointer[Progress]
	progress.Store(&Progress{})
	if cfg.ProgressAddress != "" {
		stop, err := serve(ctx, cfg, progress.Load)
		if err != nil {
			return err
		}
		defer stop()
	}
	err := write(ctx, source, cfg.Target, func(p Progress) { progress.Store(&p) })
	end := populate.Termination{Written: progress.Load().Done}
	if err != nil {
		end.Problem = err.Error()
		end.Problem = end.Problem[:min(len(end.Problem), longestProblem)]
	}
	return errors.Join(err, report(end, cfg.TerminationLog))
}

func serve(ctx context.Context, cfg Config, progress func() *Progress) (stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.ProgressAddress)
	if err != nil {
		return nil, fmt.Errorf("progress: %w", err)
	}
	if cfg.Listened != nil {
		cfg.Listened(listener.Addr())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+progressPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(progress()) // the reader may have gone
	})
	server := &http.Server{Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }() // ends when the server is closed
	return func() { _ = server.Close() }, nil
}

// report writes the termination message.
func report(t populate.Termination, path string) error {
	if path == "" {
		return nil
	}
	raw, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o600)
}

// readTimeout bounds one read of the progress, which runs within a reconcile.
const readTimeout = 2 * time.Second

// ReadProgress reads the progress of the pod at an address; false without an answer. A pod that cannot be
// reached is filled all the same.
func ReadProgress(ctx context.Context, address string) (p Progress, is bool) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+progressPath, nil)
	if err != nil {
		return p, false
	}
	answer, err := direct.Do(request)
	if err != nil {
		return p, false
	}
	defer answer.Body.Close()
	limited := http.MaxBytesReader(nil, answer.Body, 1024)
	if answer.StatusCode != http.StatusOK || json.NewDecoder(limited).Decode(&p) != nil {
		return Progress{}, false
	}
	return p, true
}

// direct follows no redirect and uses no proxy: a pod is not trusted to name another server.
var direct = &http.Client{
	Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}
