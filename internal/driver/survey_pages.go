package driver

import (
	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// surveyPages groups the extents that a backend visits into the messages of a stream. It cuts them
// to the requested range, merges adjacent extents, and puts at most max_results into a message. A
// new stream can start at any offset, so a caller resumes after the last byte that it received.
type surveyPages struct {
	// from and end limit the extents that are sent.
	from, end int64
	// size is how many extents a message has at most.
	size int
	// send gets one message; it must not keep the slice.
	send func([]backend.Extent) error

	reached int64
	page    []backend.Extent
	sent    bool
}

// add takes the next extent. A full message is sent with the next extent, since that may extend the
// last one of the message.
func (p *surveyPages) add(e backend.Extent) error {
	if e.Offset < p.reached || e.Length < 0 {
		return fault.Internal.Errorf(
			"%d bytes at %d were found after what ends at %d; this is a bug in the backend",
			e.Length,
			e.Offset,
			p.reached,
		)
	}
	p.reached = e.End()
	begin, end := max(e.Offset, p.from), min(e.End(), p.end)
	if begin >= end {
		return nil
	}
	if last := len(p.page) - 1; last >= 0 && p.page[last].End() == begin {
		p.page[last].Length += end - begin
		return nil
	}
	if len(p.page) == p.size {
		if err := p.flush(); err != nil {
			return err
		}
	}
	p.page = append(p.page, backend.Extent{Offset: begin, Length: end - begin})
	return nil
}

// finish sends the rest. A stream has at least one message, since only a
// message tells the capacity.
func (p *surveyPages) finish() error {
	if p.sent && len(p.page) == 0 {
		return nil
	}
	return p.flush()
}

func (p *surveyPages) flush() error {
	err := p.send(p.page)
	p.page, p.sent = p.page[:0], true
	return err
}
