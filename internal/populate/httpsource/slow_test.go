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
	content     []byte
	first, then time.Duration
}

// RoundTrip implements http.RoundTripper.
func (s slowServer) RoundTrip(r *http.Request) (*http.Response, error) {
	body := &slowBody{ctx: r.Context(), from: bytes.NewReader(s.content), pause: s.first, then: s.then}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: int64(len(s.content)), Request: r,
		Body: io.NopCloser(body),
	}, nil
}

type slowBody struct {
	ctx         context.Context // of the request
	from        io.Reader
	pause, then time.Duration
}

func (b *slowBody) Read(p []byte) (int, error) {
	select {
	case <-time.After(b.pause):
		b.pause = b.then
		return b.from.Read(p[:min(len(p), 100)])
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

// What is written is read again of a server without Range: as slow as the server is, with the progress said,
// but not of a server that is silent.
func TestReadsAgainSlowly(t *testing.T) {
	content := noise(600)
	const silent = "6 attempts in a row brought nothing, the last: read again from the begin: the server has sent " +
		"nothing for 1m0s"
	for _, tc := range []struct {
		first, then time.Duration
		want        string
	}{
		{40 * time.Second, 40 * time.Second, ""},
		{2 * time.Minute, 0, silent},
		{time.Second, 2 * time.Minute, silent},
	} {
		synctest.Test(t, func(t *testing.T) {
			var said []pod.Progress
			d := &download{
				ctx: t.Context(), client: &http.Client{Transport: slowServer{content, tc.first, tc.then}},
				secret: &secret{}, url: "http://origin.example/f", pause: pauseAfter, idle: time.Minute,
				at: 300, size: 600, exact: true,
				progress: func(p pod.Progress) { said = append(said, p) },
			}
			defer d.Close()
			got, err := io.ReadAll(d)
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%s, %s: %v", tc.first, tc.then, err)
				}
				return
			}
			var steps []pod.Progress
			for _, read := range []int64{100, 200, 300} {
				steps = append(steps, pod.Progress{Done: 300, Total: 600, Again: read})
			}
			if err != nil || !bytes.Equal(got, content[300:]) || !slices.Equal(said, steps) {
				t.Errorf("%d bytes, %v; said %+v", len(got), err, said)
			}
		})
	}
}
