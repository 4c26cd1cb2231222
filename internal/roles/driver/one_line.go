package driver

import (
	"github.com/go-logr/logr"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// withOneLineErrors returns a logger that logs joined errors, which have a line each, in one line.
func withOneLineErrors(log logr.Logger) logr.Logger {
	log = log.WithCallDepth(1) // for the frame of oneLineSink
	if log.GetSink() == nil {
		return log
	}
	return log.WithSink(oneLineSink{log.GetSink()})
}

// oneLineSink passes errors on with a text of one line.
type oneLineSink struct{ logr.LogSink }

// Error implements logr.LogSink.
func (s oneLineSink) Error(err error, message string, keysAndValues ...any) {
	s.LogSink.Error(inOneLine(err), message, valuesInOneLine(keysAndValues)...)
}

// Info implements logr.LogSink.
func (s oneLineSink) Info(level int, message string, keysAndValues ...any) {
	s.LogSink.Info(level, message, valuesInOneLine(keysAndValues)...)
}

// WithValues implements logr.LogSink.
func (s oneLineSink) WithValues(keysAndValues ...any) logr.LogSink {
	return oneLineSink{s.LogSink.WithValues(valuesInOneLine(keysAndValues)...)}
}

// WithName implements logr.LogSink.
func (s oneLineSink) WithName(name string) logr.LogSink {
	return oneLineSink{s.LogSink.WithName(name)}
}

// WithCallDepth implements logr.CallDepthLogSink.
func (s oneLineSink) WithCallDepth(depth int) logr.LogSink {
	if deeper, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		return oneLineSink{deeper.WithCallDepth(depth)}
	}
	return s
}

func valuesInOneLine(keysAndValues []any) []any {
	var changed []any // the caller's slice stays as it is
	for i, value := range keysAndValues {
		err, ok := value.(error)
		if !ok {
			continue
		}
		if changed == nil {
			changed = append(changed, keysAndValues...)
		}
		changed[i] = inOneLine(err)
	}
	if changed == nil {
		return keysAndValues
	}
	return changed
}

// oneLineError is an error with another text.
type oneLineError struct {
	error
	text string
}

// Error implements error.
func (e oneLineError) Error() string { return e.text }

// Unwrap returns the error with its own text.
func (e oneLineError) Unwrap() error { return e.error }

func inOneLine(err error) error {
	if err == nil {
		return nil
	}
	text := fault.OneLine(err.Error())
	if text == err.Error() {
		return err
	}
	return oneLineError{err, text}
}
