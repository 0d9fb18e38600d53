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

// A reportedError is an error that was already reported to the user.
type reportedError struct{ error }

func (e reportedError) Unwrap() error { return e.error }

// printError prints one message for each error that err joins. It prints nothing if err is nil, is a reportedError,
// or means that the reader of standard output has closed it.
func (s messagePrinter) printError(err error) {
	if _, known := err.(reportedError); known || err == nil || isReaderGone(err) {
		return
	}
	for _, e := range usererr.Split(err) {
		s.printMessage(errorMessage(e))
	}
}

// errorMessage returns the message for an error: its text, the first list of reasons in its chain, and the first
// hint. It escapes line breaks, because a host may have put them into the text (rule TRUST-28). If the text quotes a
// line of a file, line breaks are kept.
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

// showsSource reports whether the text of an error quotes a line of a file and marks the faulty place below
// it.
func showsSource(err error) bool {
	var syntax *hostlist.SyntaxError
	var planErr *plan.Error
	return errors.As(err, &syntax) || errors.As(err, &planErr) && planErr.InputError != nil
}

// flushPrinter waits up to flushTimeout until all messages are written.
func flushPrinter(errs *stdio.Printer) {
	errs.Close()
	select {
	case <-errs.Done():
	case <-time.After(flushTimeout):
	}
}

// flushTimeout is how long mpiexec waits before it exits if standard error does not accept data.
const flushTimeout = 2 * time.Second

// logSubseconds makes all logs print fractions of seconds. By default, package zerolog prints whole seconds.
var logSubseconds = sync.OnceFunc(func() { zerolog.TimeFieldFormat = time.RFC3339Nano })

// newLogger returns a logger that writes text to w. By default it logs warnings and errors. With verbosity 1
// (-v) it also logs information, and with 2 (-vv) everything. With a negative verbosity it logs only errors.
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

// isReaderGone reports whether err means that the reader of mpiexec's standard output has closed it
// (EPIPE). This is not reported to the user (rule IO-12).
func isReaderGone(err error) bool {
	var failed *fs.PathError
	return errors.As(err, &failed) && failed.Path == os.Stdout.Name() && failed.Err == syscall.EPIPE
}

// exitCode returns the exit code of mpiexec, for the shell, --report and --json (rule TRUST-33). If err is nil, it
// returns the argument code, which comes from the ranks or from a request such as --ps. Some errors have an exit code
// of their own. For all others, exitCode returns errorCode, or 125 if errorCode is 0.
func exitCode(code int, err error, errorCode int) int {
	var cancelled *reserve.SignalError
	switch {
	case err == nil:
		return job.ClampExitCode(code, code == job.ExitOK, errorCode)
	case isReaderGone(err):
		return job.ExitNoStdout
	case errors.As(err, &cancelled):
		return job.Signal(cancelled.Signal).Status()
	}
	if code := usererr.Code(err); code != 0 && code != job.ExitInternal {
		return job.ClampExitCode(code, false, errorCode)
	}
	return job.InternalErrorCode(errorCode)
}

// parseOwnErrorCode returns the exit code of mpiexec's own failures. text is the value of MPIEXEC_ERROR_CODE. If it
// is empty, the exit code is 125.
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
