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

	"remshell/fault"
	"remshell/hostlist"
	"remshell/job"
	"remshell/launch/reserve"
	"remshell/launch/stdio"
	"remshell/plan"
	"remshell/show"
)

// A told error is one of which the user has read all there is to say.
type told struct{ error }

func (e told) Unwrap() error { return e.error }

// report writes what went wrong, if anything, each fault as a message of its own. Lists
// of faults are as long as whoever made them thinks fit (CLI-10: ten).
func (s screen) report(err error) {
	if _, known := err.(told); known || err == nil || readerGone(err) {
		return
	}
	for _, e := range fault.Each(err) {
		s.print(messageOf(e))
	}
}

// messageOf is the text of a fault, the list of reasons of the first error in its chain that has one, and the hint
// of the first that has one. Only what is said of a line of a file, which it shows, has lines of its own:
// all others are on one, whatever a host has put into them (TRUST-28).
func messageOf(err error) message {
	m := message{kind: failure, text: strings.TrimPrefix(err.Error(), "mpiexec: ")}
	if showsSource(err) {
		m.text = show.CleanLines(m.text)
	} else {
		m.text = show.Clean(m.text)
	}
	for _, reason := range fault.Reasons(err) {
		m.below = append(m.below, "  "+show.Clean(reason))
	}
	if hint := fault.Hint(err); hint != "" {
		m.below = append(m.below, "  hint: "+show.Clean(hint))
	}
	return m
}

// inOneLine is an error with its hint, where only one line is of use.
func inOneLine(err error) string {
	text := err.Error()
	if hint := fault.Hint(err); hint != "" {
		text += "; " + hint
	}
	return show.Clean(text)
}

// showsSource reports whether the text of a fault goes on with a line of a file and a mark
// below it.
func showsSource(err error) bool {
	var syntax *hostlist.SyntaxError
	var failed *plan.Error
	return errors.As(err, &syntax) || errors.As(err, &failed) && failed.At != nil
}

// flush waits until what was said can be read, within reason.
func flush(errs *stdio.Printer) {
	errs.Close()
	select {
	case <-errs.Done():
	case <-time.After(lastLines):
	}
}

// lastLines is how long we wait for a standard error that takes nothing.
const lastLines = 2 * time.Second

// fineTime has all logs tell of parts of a second; the default has whole ones.
var fineTime = sync.OnceFunc(func() { zerolog.TimeFieldFormat = time.RFC3339Nano })

// logger writes for people to standard error: warnings always, what is going on
// with -v, everything with -vv.
func logger(w io.Writer, verbosity int, color bool) zerolog.Logger {
	level := zerolog.WarnLevel
	switch {
	case verbosity < 0:
		level = zerolog.ErrorLevel
	case verbosity == 1:
		level = zerolog.InfoLevel
	case verbosity > 1:
		level = zerolog.DebugLevel
	}
	fineTime()
	clean := func(text any) string { // nil: there is none
		if text == nil {
			return ""
		}
		return show.Clean(fmt.Sprintf("%s", text))
	}
	console := zerolog.ConsoleWriter{Out: w, NoColor: !color, TimeFormat: "15:04:05.000", FormatMessage: clean, FormatFieldValue: clean}
	return zerolog.New(console).Level(level).With().Timestamp().Logger()
}

// readerGone reports whether an error is that nobody reads our standard output any more, of which nothing is
// said (IO-12).
func readerGone(err error) bool {
	var failed *fs.PathError
	return errors.As(err, &failed) && failed.Path == os.Stdout.Name() && failed.Err == syscall.EPIPE
}

// exitCode is the code that mpiexec leaves with, whoever wants to know: the shell, --report and
// --json (TRUST-33). code is that of the ranks, as the screen has it, or what was found; it counts
// unless there is an error. ours stands for our own failures; 0: as ever.
func exitCode(code int, err error, ours int) int {
	var cancelled *reserve.Cancelled
	switch {
	case err == nil:
		return job.Clamp(code, code == job.ExitOK, ours)
	case readerGone(err):
		return job.ExitNoStdout
	case errors.As(err, &cancelled):
		return job.Signal(cancelled.Signal).Status()
	}
	if code := fault.Code(err); code != 0 && code != job.ExitInternal {
		return job.Clamp(code, false, ours)
	}
	return job.OurCode(ours)
}

// ourCode is the exit code of our own failures: 125, or what the user puts in its
// place so that scripts can tell it from a program's.
func ourCode(text string) (int, error) {
	if text == "" {
		return job.ExitInternal, nil
	}
	code, err := strconv.Atoi(text)
	if err != nil || code < 1 || code > 255 {
		return 0, &fault.Error{Text: fmt.Sprintf("MPIEXEC_ERROR_CODE: %q is not an exit code", text), Remedy: "allowed: 1 to 255"}
	}
	return code, nil
}
