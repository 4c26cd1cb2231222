package httpsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/purser-csi/purser/internal/populate/pod"
)

// errChanged says that the file at the URL is not the one of which a part is written.
var errChanged = errors.New("the file at the URL has changed since the download began, or its server cannot resume")

// download reads a file over as many connections as it takes. It is an io.Reader.
type download struct {
	ctx    context.Context //nolint:containedctx // of the reader, whose Read has none
	client *http.Client
	secret *secret
	url    string
	header http.Header // of each request

	isImage bool    // the URL is that of a layer
	account *secret // for the host of the registry's tokens

	pause    func(ctx context.Context, failed int) error
	idle     time.Duration // that a connection may be silent for
	progress func(pod.Progress)

	at    int64  // bytes that were read
	size  int64  // of the file; -1 while it is not known
	mark  string // ETag or Last-Modified of the file; empty if the server gives none
	exact bool   // a checksum is compared at the end, so that a file without a mark may be resumed

	body   *connection // nil for none
	failed int         // attempts in a row that brought nothing
}

// mostFailures is how many attempts in a row may bring nothing before the pod fails. The controller makes
// another pod later.
const mostFailures = 6

// pauseAfter waits before the next attempt, for a time that doubles.
func pauseAfter(ctx context.Context, failed int) error {
	select {
	case <-time.After(min(time.Second<<failed, 30*time.Second)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	for {
		if d.body == nil {
			if d.size >= 0 && d.at >= d.size {
				return 0, io.EOF
			}
			if err := d.open(); err != nil {
				if err := d.retry(err); err != nil {
					return 0, err
				}
				continue
			}
		}
		n, err := d.body.Read(p)
		d.at += int64(n)
		if n > 0 {
			d.failed = 0
		}
		if errors.Is(err, io.EOF) && (d.size < 0 || d.at >= d.size) {
			d.size = d.at
			return n, io.EOF
		}
		if err != nil {
			d.Close()
			if err := d.retry(err); err != nil {
				return n, err
			}
		}
		if n > 0 {
			return n, nil
		}
	}
}

// retry waits before the next attempt, or returns why there is none.
func (d *download) retry(cause error) error {
	if _, permanent := errors.AsType[permanentError](cause); permanent || errors.Is(cause, errChanged) {
		return cause
	}
	if err := d.ctx.Err(); err != nil {
		return err
	}
	if d.failed++; d.failed >= mostFailures {
		return fmt.Errorf("%d attempts in a row brought nothing, the last: %w", d.failed, cause)
	}
	return d.pause(d.ctx, d.failed)
}

// open connects and continues at d.at.
func (d *download) open() error {
	ctx, cancel := context.WithCancel(d.ctx)
	answer, err := d.request(ctx)
	if err == nil {
		if err = d.accept(answer); err != nil {
			answer.Body.Close()
		}
	}
	if err != nil {
		cancel()
		return err
	}
	d.body = &connection{body: answer.Body, cancel: cancel, idle: d.idle, silent: time.AfterFunc(d.idle, cancel)}
	if d.at > 0 && answer.StatusCode == http.StatusOK {
		return d.skip()
	}
	return nil
}

// request asks for the file from d.at on. A token of the registry that has expired is replaced, once.
func (d *download) request(ctx context.Context) (*http.Response, error) {
	answer, err := get(ctx, d.client, d.secret, d.url, d.resuming())
	if err != nil || !d.isImage {
		return answer, err
	}
	challenge, is := challengeOf(answer)
	if !is {
		return answer, nil
	}
	answer.Body.Close()
	if err := d.login(challenge); err != nil {
		return nil, err
	}
	return get(ctx, d.client, d.secret, d.url, d.resuming())
}

// resuming returns the headers of a request for what follows d.at.
func (d *download) resuming() http.Header {
	header := d.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set("Accept-Encoding", "identity")
	if d.at > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", d.at))
		if d.mark != "" {
			header.Set("If-Range", d.mark)
		}
	}
	return header
}

// accept compares an answer with what is known of the file.
func (d *download) accept(answer *http.Response) error {
	if answer.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return errChanged
	}
	if err := statusError(answer); err != nil {
		return err
	}
	size, mark := answer.ContentLength, markOf(answer)
	if answer.StatusCode == http.StatusPartialContent {
		from, total, is := rangeOf(answer.Header.Get("Content-Range"))
		if !is || from != d.at {
			return errChanged
		}
		size = total
	}
	if d.at > 0 && (mark != d.mark || mark == "" && !d.exact || d.size >= 0 && size >= 0 && size != d.size) {
		return errChanged
	}
	if d.mark = mark; size >= 0 {
		d.size = size
	}
	return nil
}

// skip reads what is written already from a server without Range.
func (d *download) skip() error {
	if _, err := io.CopyN(d.again(), d.body, d.at); err != nil {
		d.Close()
		return fmt.Errorf("read again from the begin: %w", err)
	}
	return nil
}

// said calls progress when all that was read is written.
func (d *download) said() { d.progress(pod.Progress{Done: d.at, Total: max(d.size, 0)}) }

// again returns a writer for what is written already and is read again. It says how far that is.
func (d *download) again() io.Writer {
	return &again{pod.Progress{Done: d.at, Total: max(d.size, 0)}, d.progress}
}

type again struct {
	pod.Progress
	say func(pod.Progress)
}

// Write implements io.Writer.
func (a *again) Write(p []byte) (int, error) {
	a.Again += int64(len(p))
	a.say(a.Progress)
	return len(p), nil
}

// Close ends the connection.
func (d *download) Close() {
	if d.body != nil {
		d.body.Close()
		d.body = nil
	}
}

// connection is the answer of a server, which ends when the server is silent for a time.
type connection struct {
	body   io.ReadCloser
	cancel context.CancelFunc
	idle   time.Duration
	silent *time.Timer // cancels
}

// Read implements io.Reader. The time is that of one read: the caller may take its time to write.
func (c *connection) Read(p []byte) (int, error) {
	c.silent.Reset(c.idle)
	n, err := c.body.Read(p)
	if !c.silent.Stop() && err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("the server has sent nothing for %s", c.idle)
	}
	return n, err
}

// Close ends the connection.
func (c *connection) Close() {
	c.silent.Stop()
	c.cancel()
	c.body.Close()
}

// markOf returns what identifies the content of an answer. A weak ETag does not.
func markOf(answer *http.Response) string {
	if tag := answer.Header.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		return tag
	}
	return answer.Header.Get("Last-Modified")
}

// rangeOf parses a Content-Range. A total of -1 is not known.
func rangeOf(text string) (from, total int64, is bool) {
	text, is = strings.CutPrefix(text, "bytes ")
	interval, all, found := strings.Cut(text, "/")
	first, _, dash := strings.Cut(interval, "-")
	if !is || !found || !dash {
		return 0, 0, false
	}
	from, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return 0, 0, false
	}
	if all == "*" {
		return from, -1, true
	}
	total, err = strconv.ParseInt(all, 10, 64)
	return from, total, err == nil
}
