package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"remshell/format"
	"remshell/hostlist"
	"remshell/job"
	"remshell/launch/reserve"
	"remshell/launch/stdio"
	"remshell/plan"
	"remshell/usererr"
)

// A reportedError is an error that has already been reported to the user in full.
type reportedError struct{ error }

func (e reportedError) Unwrap() error { return e.error }

// printError prints an error as one message for each fault that it joins. It prints nothing if the error is nil, was
// reported before, or means that the reader of standard output is gone. A list of faults is printed whole; its maker
// limits it (CLI-10: ten).
func (s messagePrinter) printError(err error) {
	if _, known := err.(reportedError); known || err == nil || isReaderGone(err) {
		return
	}
	for _, e := range usererr.Split(err) {
		s.printMessage(errorMessage(e))
	}
}

// errorMessage returns the message for an error: its text, the first list of reasons in its chain, and the first hint.
// Line breaks are kept only if the text quotes a line of a file. All others are escaped, whatever a host has put into
// the text (TRUST-28).
func errorMessage(err error) message {
	m := message{messageKind: failureMessage, text: strings.TrimPrefix(err.Error(), "mpiexec: ")}
	if showsSource(err) {
		m.text = format.EscapeLines(m.text)
	} else {
		m.text = format.EscapeSentence(m.text)
	}
	for _, reason := range usererr.Reasons(err) {
		m.details = append(m.details, "  "+format.EscapeSentence(reason))
	}
	if hint := usererr.Hint(err); hint != "" {
		m.details = append(m.details, "  hint: "+format.EscapeSentence(hint))
	}
	return m
}

// oneLineError returns the text of an error and its hint on one line.
func oneLineError(err error) string {
	text := err.Error()
	if hint := usererr.Hint(err); hint != "" {
		text += "; " + hint
	}
	return format.EscapeSentence(text)
}

// showsSource reports whether the text of an error goes on with a line of a file and a mark below it.
func showsSource(err error) bool {
	var syntax *hostlist.SyntaxError
	var planErr *plan.Error
	return errors.As(err, &syntax) || errors.As(err, &planErr) && planErr.InputError != nil
}

// flushPrinter waits until all messages are written, at most flushTimeout.
func flushPrinter(errs *stdio.Printer) {
	errs.Close()
	select {
	case <-errs.Done():
	case <-time.After(flushTimeout):
	}
}

// flushTimeout is how long we wait for a standard error that does not accept data.
const flushTimeout = 2 * time.Second

// logSubseconds makes all logs print fractions of seconds; zerolog's default is whole seconds.
var logSubseconds = sync.OnceFunc(func() { zerolog.TimeFieldFormat = time.RFC3339Nano })

// newLogger returns a logger that writes text to w. It logs warnings and errors by default, information with -v
// (verbosity 1), all with -vv (2), and only errors below 0.
func newLogger(w io.Writer, verbosity int, color bool) zerolog.Logger {
	level := zerolog.WarnLevel
	switch {
	case verbosity < 0:
		level = zerolog.ErrorLevel
	case verbosity == 1:
		level = zerolog.InfoLevel
	case verbosity > 1:
		level = zerolog.DebugLevel
	}
	logSubseconds()
	clean := func(text any) string { // nil: there is no text
		if text == nil {
			return ""
		}
		return format.EscapeSentence(fmt.Sprintf("%s", text))
	}
	console := zerolog.ConsoleWriter{Out: w, NoColor: !color, TimeFormat: "15:04:05.000", FormatMessage: clean, FormatFieldValue: clean}
	return zerolog.New(console).Level(level).With().Timestamp().Logger()
}

// isReaderGone reports whether an error is EPIPE on our standard output. Such an error is not reported (IO-12).
func isReaderGone(err error) bool {
	var failed *fs.PathError
	return errors.As(err, &failed) && failed.Path == os.Stdout.Name() && failed.Err == syscall.EPIPE
}

// exitCode returns the exit code of mpiexec, for the shell, --report and --json (TRUST-33). code is the code of the
// ranks or of a query; it counts only if err is nil. ours replaces the code of our own failures; if it is 0, that is
// 125.
func exitCode(code int, err error, ours int) int {
	var cancelled *reserve.SignalError
	switch {
	case err == nil:
		return job.ClampExitCode(code, code == job.ExitOK, ours)
	case isReaderGone(err):
		return job.ExitNoStdout
	case errors.As(err, &cancelled):
		return job.Signal(cancelled.Signal).Status()
	}
	if code := usererr.Code(err); code != 0 && code != job.ExitInternal {
		return job.ClampExitCode(code, false, ours)
	}
	return job.InternalErrorCode(ours)
}

// parseOwnErrorCode returns the exit code of our own failures: 125, or the number in text (MPIEXEC_ERROR_CODE), so
// that scripts can tell it from a program's code.
func parseOwnErrorCode(text string) (int, error) {
	if text == "" {
		return job.ExitInternal, nil
	}
	code, err := strconv.Atoi(text)
	if err != nil || code < 1 || code > 255 {
		return 0, &usererr.Error{Text: fmt.Sprintf("MPIEXEC_ERROR_CODE: %q is not an exit code", text), Remedy: "allowed: 1 to 255"}
	}
	return code, nil
}
