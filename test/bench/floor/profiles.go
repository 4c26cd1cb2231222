package floor

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/test/bench/runner"
)

// profiledRate is the expected number of operations in a second, since the duration of a profile is set
// before it starts.
const profiledRate = 100

// profile has the API server and our programs profiled for about as long as a burst takes, in the first
// round. The error arrives when all profiles are written.
func (t *turn) profile(ctx context.Context, row string) <-chan error {
	done := make(chan error, 1)
	if t.profiles == "" || t.round > 1 {
		done <- nil
		return done
	}
	seconds := max(1, t.sizes.volumes/profiledRate)
	group, ctx := errgroup.WithContext(ctx)
	save := func(program, at string, from *http.Client) {
		group.Go(func() error {
			content, err := runner.Get(ctx, from, fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", at, seconds))
			if err != nil {
				return err
			}
			name := strings.ReplaceAll(strings.Join([]string{t.running.Short, row, program}, "-"), " ", "-")
			return os.WriteFile(filepath.Join(t.profiles, name+".pprof"), content, 0o600)
		})
	}
	for i, p := range t.running.Processes {
		if p.Address != "" {
			save(t.running.Programs[i].Account, "http://"+p.Address, http.DefaultClient)
		}
	}
	config := t.Cluster.RESTConfig()
	api, err := rest.HTTPClientFor(config)
	if err != nil {
		done <- err
		return done
	}
	save("api-server", config.Host, api)
	go func() { done <- group.Wait() }()
	return done
}
