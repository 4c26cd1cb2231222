package httpsource

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/purser-csi/purser/internal/populate/pod"
)

// slowServer has no Range. It sends 100 bytes at a time, each after a pause.
type slowServer struct {
	content []byte
	pause   time.Duration
}

// RoundTrip implements http.RoundTripper.
func (s slowServer) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Header: http.Header{}, ContentLength: int64(len(s.content)), Request: r,
		Body: io.NopCloser(&slowBody{r.Context(), bytes.NewReader(s.content), s.pause}),
	}, nil
}

type slowBody struct {
	ctx   context.Context // of the request
	from  io.Reader
	pause time.Duration
}

func (b *slowBody) Read(p []byte) (int, error) {
	select {
	case <-time.After(b.pause):
		return b.from.Read(p[:min(len(p), 100)])
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

// What is written is read again of a server without Range: as slow as the server is, with the progress said,
// but not of a server that is silent.
func TestReadsAgainSlowly(t *testing.T) {
	content := noise(600)
	for pause, want := range map[time.Duration]string{
		40 * time.Second: "", 2 * time.Minute: "6 attempts in a row brought nothing, the last: read again from the begin: " +
			"the server has sent nothing for 1m0s",
	} {
		synctest.Test(t, func(t *testing.T) {
			var said []pod.Progress
			d := &download{
				ctx: t.Context(), client: &http.Client{Transport: slowServer{content, pause}}, secret: &secret{},
				url: "http://origin.example/f", pause: pauseAfter, idle: time.Minute, at: 300, size: 600, exact: true,
				progress: func(p pod.Progress) { said = append(said, p) },
			}
			defer d.Close()
			got, err := io.ReadAll(d)
			if want != "" {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v", pause, err)
				}
				return
			}
			steps := []pod.Progress{{Done: 300, Total: 600, Again: 100}, {Done: 300, Total: 600, Again: 200}, {Done: 300, Total: 600, Again: 300}}
			if err != nil || !bytes.Equal(got, content[300:]) || !slices.Equal(said, steps) {
				t.Errorf("%s: %d bytes, %v; said %+v", pause, len(got), err, said)
			}
		})
	}
}
