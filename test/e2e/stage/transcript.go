package stage

import (
	"bytes"
	"io"
	"regexp"
	"sync"
)

// transcript keeps what is printed, passes it on, and notices when `up` is ready.
type transcript struct {
	mu     sync.Mutex
	all    bytes.Buffer
	echo   io.Writer
	ready  chan struct{}
	closed bool
}

func newTranscript(echo io.Writer) *transcript {
	if echo == nil {
		echo = io.Discard
	}
	return &transcript{echo: echo, ready: make(chan struct{})}
}

// readyLine is the last that `up` prints when it is ready.
var readyLine = regexp.MustCompile(`(?m)^Logs are in .*\n`)

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all.Write(p)
	if !t.closed && readyLine.Match(t.all.Bytes()) {
		t.closed = true
		close(t.ready)
	}
	return t.echo.Write(p)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.String()
}
