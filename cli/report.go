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

// A reportedError error is one of which the user has read all there is to say.
type reportedError struct{ error }

func (e reportedError) Unwrap() error { return e.error }

// printError writes what went wrong, if anything, each fault as a message of its own. Lists
// of faults are as long as whoever made them thinks fit (CLI-10: ten).
func (s messagePrinter) printError(err error) {
	if _, known := err.(reportedError); known || err == nil || isReaderGone(err) {
		return
	}
	for _, e := range usererr.Split(err) {
		s.printMessage(errorMessage(e))
	}
}

// errorMessage is the text of a fault, the list of reasons of the first error in its chain that has one, and the hint
// of the first that has one. Only what is said of a line of a file, which it shows, has lines of its own:
// all others are on one, whatever a host has put into them (TRUST-28).
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

// oneLineError is an error with its hint, where only one line is of use.
func oneLineError(err error) string {
	text := err.Error()
	if hint := usererr.Hint(err); hint != "" {
		text += "; " + hint
	}
	return format.EscapeSentence(text)
}

// showsSource reports whether the text of a fault goes on with a line of a file and a mark
// below it.
func showsSource(err error) bool {
	var syntax *hostlist.SyntaxError
	var failed *plan.Error
	return errors.As(err, &syntax) || errors.As(err, &failed) && failed.InputError != nil
}

// flushPrinter waits until what was said can be read, within reason.
func flushPrinter(errs *stdio.Printer) {
	errs.Close()
	select {
	case <-errs.Done():
	case <-time.After(flushTimeout):
	}
}

// flushTimeout is how long we wait for a standard error that takes nothing.
const flushTimeout = 2 * time.Second

// logSubseconds has all logs tell of parts of a second; the default has whole ones.
var logSubseconds = sync.OnceFunc(func() { zerolog.TimeFieldFormat = time.RFC3339Nano })

// newLogger writes for people to standard error: warnings always, what is going on
// with -v, everything with -vv.
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
	clean := func(text any) string { // nil: there is none
		if text == nil {
			return ""
		}
		return format.EscapeSentence(fmt.Sprintf("%s", text))
	}
	console := zerolog.ConsoleWriter{Out: w, NoColor: !color, TimeFormat: "15:04:05.000", FormatMessage: clean, FormatFieldValue: clean}
	return zerolog.New(console).Level(level).With().Timestamp().Logger()
}

// isReaderGone reports whether an error is that nobody reads our standard output any more, of which nothing is
// said (IO-12).
func isReaderGone(err error) bool {
	var failed *fs.PathError
	return errors.As(err, &failed) && failed.Path == os.Stdout.Name() && failed.Err == syscall.EPIPE
}

// exitCode is the code that mpiexec leaves with, whoever wants to know: the shell, --report and
// --json (TRUST-33). code is that of the ranks, as the screen has it, or what was found; it counts
// unless there is an error. ours stands for our own failures; 0: as ever.
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

// parseOwnErrorCode is the exit code of our own failures: 125, or what the user puts in its
// place so that scripts can tell it from a program's.
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
