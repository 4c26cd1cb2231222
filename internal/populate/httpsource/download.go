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

	pause func(ctx context.Context, failed int) error
	idle  time.Duration // that a connection may be silent for

	at    int64  // bytes that were read
	size  int64  // of the file; -1 while it is not known
	mark  string // ETag or Last-Modified of the file; empty if the server gives none
	exact bool   // a checksum is compared at the end, so that a file without a mark may be resumed

	body   io.ReadCloser
	cancel context.CancelFunc
	silent *time.Timer // cancels the connection
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
		d.silent.Reset(d.idle)
		n, err := d.body.Read(p)
		d.silent.Stop() // the caller may take its time to write
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
	d.body, d.cancel, d.silent = answer.Body, cancel, time.AfterFunc(d.idle, cancel)
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
	for left := d.at; left > 0; {
		d.silent.Reset(d.idle)
		n, err := io.CopyN(io.Discard, d.body, min(left, 1<<20))
		left -= n
		if err != nil {
			d.Close()
			return fmt.Errorf("read again from the begin: %w", err)
		}
	}
	return nil
}

// Close ends the connection.
func (d *download) Close() {
	if d.body != nil {
		d.silent.Stop()
		d.cancel()
		d.body.Close()
		d.body = nil
	}
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
