package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/explain/inventory"
	"github.com/purser-csi/purser/internal/printable"
	"github.com/purser-csi/purser/internal/record"
	"github.com/purser-csi/purser/internal/size"
)

// readRecord returns the objects of the records that --from names at the time --at; nil if it names
// dumps.
func (s *source) readRecord() (*inventory.Builder, error) {
	texts := map[string][]byte{}
	others := 0
	for _, from := range s.from {
		text, isRecord, err := s.recordIn(from)
		switch {
		case err != nil:
			return nil, err
		case isRecord:
			texts[from] = text
		default:
			others++
		}
	}
	switch {
	case len(texts) == 0 && s.at != "":
		return nil, fmt.Errorf("--at=%s: a dump has one time; give a file that purser record has written", s.at)
	case len(texts) == 0:
		return nil, nil
	case others > 0:
		return nil, errors.New("--from: records and dumps cannot be read together; give one of them")
	case s.now != "":
		return nil, fmt.Errorf("--now=%s: a record has times of its own; give --at", s.now)
	}
	loaded, err := record.Load(texts)
	if err != nil {
		return nil, err
	}
	s.note(loaded.Notes)
	at := loaded.End()
	if s.at != "" {
		if at, err = time.Parse(time.RFC3339, s.at); err != nil {
			return nil, fmt.Errorf("--at=%s: expected a time such as 2026-01-31T12:00:00Z", s.at)
		}
	}
	s.record = loaded
	return loaded.At(at)
}

// recordIn reads a file, and reports whether it is a record. The text of a dump is kept for its
// reader if it cannot be read again: that of standard input or of a pipe.
func (s *source) recordIn(from string) ([]byte, bool, error) {
	if text, isRead := s.once[from]; isRead {
		return text, record.Is(text), nil
	}
	if from == "-" {
		text, err := io.ReadAll(s.in)
		if err != nil {
			return nil, false, fmt.Errorf("standard input: %w", err)
		}
		s.keep(from, text)
		return text, record.Is(text), nil
	}
	info, err := os.Stat(from)
	if err != nil || info.IsDir() {
		return nil, false, nil //nolint:nilerr // the reader of dumps says so
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return nil, false, fmt.Errorf("--from: %w", err)
	}
	if !info.Mode().IsRegular() {
		s.keep(from, text)
	}
	return text, record.Is(text), nil
}

// note prints what of a record cannot be used.
func (s *source) note(notes []string) {
	if s.notes == nil {
		return
	}
	for _, text := range notes {
		fmt.Fprintln(s.notes, "Note:", printable.Line(text))
	}
}

// keep keeps the text of a source that can be read once.
func (s *source) keep(from string, text []byte) {
	if s.once == nil {
		s.once = map[string][]byte{}
	}
	s.once[from] = text
}

type recordOptions struct {
	source
	output           string
	maxSize          string
	maxAge, duration time.Duration
	endpoints        Endpoints
	hidden           string
	out              io.Writer
}

func newRecord(streams Streams) *cobra.Command {
	o := &recordOptions{source: source{in: streams.In, notes: streams.Err}, out: streams.Out}
	c := &cobra.Command{
		Use:   "record",
		Short: "Write each change of the objects that explain reads into a file",
		Long: `Watches the objects that explain reads, and writes each change as a line of JSON:
the time, the object, the fields that changed and the programs that wrote them.
Values of secrets are never read. explain, tree, dump and life read the file as
they read a dump: --from FILE, and --at TIME for a time in it. It ends with
Ctrl-C. An existing file is continued; a file that is full is set aside as
FILE.old, and FILE begins again with all objects.`,
		Example: `  purser record -o record.jsonl.gz
  purser life --from record.jsonl.gz pvc/data -n shop
  purser explain --from record.jsonl.gz --at 2026-01-31T12:00:00Z`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return cannotTell(o.run(c.Context())) },
	}
	o.flags(c.Flags())
	c.Flags().StringVarP(
		&o.output, "output", "o", "-", "`file` to write, compressed if its name ends in .gz; - is standard output",
	)
	c.Flags().StringVar(
		&o.maxSize, "max-size", "256Mi", "`size` of FILE and FILE.old together at most; 0 for no limit",
	)
	c.Flags().DurationVar(&o.maxAge, "max-age", 48*time.Hour, "age of the oldest line at most; 0 for no limit")
	o.endpoints.AddFlags(c.Flags(), "whose calls to the driver and decisions are recorded too")
	c.Flags().StringVar(&o.hidden, "hide-names-of", "",
		"`file` of a record to write with its names replaced as in a dump, the same name always by the same word, "+
			"instead of recording")
	c.Flags().DurationVar(&o.duration, "for", 0, "how long to record; 0 until it is interrupted")
	o.completeFlags(c)
	setExitCodes(c, "written until it was interrupted")
	return c
}

// flushed is how often what is recorded reaches the file.
const flushed = time.Second

func (o *recordOptions) run(ctx context.Context) error {
	quantity, err := resource.ParseQuantity(o.maxSize)
	limit, problem := size.Bytes(quantity)
	if err != nil || problem != nil || limit < 0 {
		return fmt.Errorf("--max-size=%s: expected a size such as 256Mi", o.maxSize)
	}
	if o.maxAge < 0 || o.duration < 0 {
		return fmt.Errorf("--max-age=%s --for=%s: expected durations of 0 or more", o.maxAge, o.duration)
	}
	if o.hidden != "" {
		return o.hide()
	}
	if err := o.endpoints.Validate(); err != nil {
		return err
	}
	from, namespace, err := o.client()
	if err != nil {
		return err
	}
	if o.duration > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, o.duration)
		defer stop()
	}
	if o.output == "-" {
		return o.into(ctx, record.Stream{Writer: o.out}, namespace, from)
	}
	file, err := record.Create(o.output, record.Limits{Size: limit, Age: o.maxAge}, time.Now())
	if err != nil {
		return err
	}
	return o.into(ctx, file, namespace, from)
}

// into records until the context ends or the output fails.
func (o *recordOptions) into(
	ctx context.Context, out record.Output, namespace string, from client.WithWatch,
) error {
	writer := record.NewWriter(out, "purser record", time.Now)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	if err := record.Watch(watching, from, namespace, writer); err != nil {
		_ = writer.Close() // the first error counts
		if ctx.Err() != nil {
			return nil // it was ended before the first list
		}
		return err
	}
	go saveTime(watching)
	var roles sync.WaitGroup
	for _, endpoint := range o.endpoints.URLs {
		through, err := o.endpoints.Client(endpoint)
		if err != nil {
			_ = writer.Close() // the first error counts
			return err
		}
		roles.Go(func() { record.NewRole(endpoint, through).Follow(watching, writer) })
	}
	tick := time.NewTicker(flushed)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			roles.Wait()
			return writer.Close()
		case <-tick.C:
			if err := writer.Flush(); err != nil {
				_ = writer.Close() // the first error counts
				return err
			}
		}
	}
}

// hide writes another record with its names replaced.
func (o *recordOptions) hide() error {
	text, err := os.ReadFile(o.hidden)
	if err != nil {
		return fmt.Errorf("--hide-names-of: %w", err)
	}
	if !record.Is(text) {
		return fmt.Errorf(
			"--hide-names-of=%s: it is no record; for a dump: purser dump --hide-names --from FILE", o.hidden,
		)
	}
	if o.output == "-" {
		notes, err := record.HideNames(text, o.out)
		o.note(notes)
		return err
	}
	if _, err := os.Stat(o.output); err == nil {
		return fmt.Errorf("-o %s: the file exists; name a new one", o.output)
	}
	file, err := record.Create(o.output, record.Limits{}, time.Now())
	if err != nil {
		return err
	}
	notes, err := record.HideNames(text, file)
	o.note(notes)
	return errors.Join(err, file.Close())
}
