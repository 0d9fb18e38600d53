package cli

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"remshell/cli/option"
	"remshell/format"
	"remshell/job"
	"remshell/launch"
	"remshell/launch/stdio"
	"remshell/text"
	"remshell/usererr"
)

// foregroundPoll is the interval at which mpiexec, while it runs in the background, checks whether it is in the
// foreground again. The kernel sends no signal for this.
const foregroundPoll = 200 * time.Millisecond

// newForegroundReader returns a reader that reads a terminal only while mpiexec is in the foreground of that
// terminal. If mpiexec read it in the background, the kernel would stop mpiexec with SIGTTIN, and `mpiexec ... &`
// would never end (rule IO-5). If in is not a terminal, newForegroundReader returns in.
//
// The reader polls for input first, and then reads. A read that blocks could be interrupted by ^Z. After bg, the
// kernel would restart this read while mpiexec is in the background.
func newForegroundReader(in io.Reader) io.Reader {
	file, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return in
	}
	return foregroundTerminal{file}
}

// A foregroundTerminal is a terminal that is read only while mpiexec is in the foreground.
type foregroundTerminal struct{ *os.File }

func (t foregroundTerminal) Read(p []byte) (int, error) {
	for {
		t.awaitInput()
		if t.isForeground() {
			return t.File.Read(p)
		}
		time.Sleep(foregroundPoll)
	}
}

// awaitInput waits until there is input, or end of file.
func (t foregroundTerminal) awaitInput() {
	fds := []unix.PollFd{{Fd: int32(t.Fd()), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err != unix.EINTR {
			return
		}
	}
}

// isForeground reports whether mpiexec's process group is in the terminal's foreground. It also returns true if the
// terminal is not mpiexec's controlling terminal: reading another terminal does not stop mpiexec.
func (t foregroundTerminal) isForeground() bool {
	group, err := unix.IoctlGetInt(int(t.Fd()), unix.TIOCGPGRP)
	return err != nil || group == syscall.Getpgrp()
}

// lendTerminal makes mpiexec's terminal raw, for ranks with pseudo-terminals. Each key, even ^C, then goes to the
// ranks. Newlines are still translated on output, so that mpiexec's own lines are readable. If mpiexec has no
// terminal or is in the background, nothing changes. The caller must call restore.
func lendTerminal(sys System, env *launch.Env) (restore func(), err error) {
	file, ok := sys.In.(*os.File)
	if !ok || env.In == nil || !term.IsTerminal(int(file.Fd())) || !(foregroundTerminal{file}).isForeground() {
		return func() {}, nil
	}
	fd := int(file.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, fmt.Errorf("--pty: %w", err)
	}
	keepNewlines(fd)
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	env.TerminalResized = resized
	env.TerminalSize = func() (rows, cols int) {
		cols, rows, _ = term.GetSize(fd)
		return rows, cols
	}
	if sys.TerminalLent != nil {
		sys.TerminalLent(func() {
			if (foregroundTerminal{file}).isForeground() { // otherwise the kernel would stop mpiexec
				term.Restore(fd, before)
			}
		})
	}
	return func() {
		signal.Stop(resized)
		term.Restore(fd, before)
	}, nil
}

// progressDelay is how long a start may take before a terminal shows its progress.
const progressDelay = 2 * time.Second

// isTerminal reports whether a stream is a terminal.
func isTerminal(w any) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// useColor reports whether to print in colour (rule DIAG-8). It returns false if NO_COLOR is set, even with --color
// always. With --color always or CLICOLOR_FORCE, it returns true even if the output is no terminal or TERM is dumb.
func useColor(mode string, getenv func(string) string, terminal bool) bool {
	switch {
	case mode == "never", getenv("NO_COLOR") != "":
		return false
	case mode == "always", getenv("CLICOLOR_FORCE") != "" && getenv("CLICOLOR_FORCE") != "0":
		return true
	}
	return terminal && getenv("TERM") != "dumb"
}

// colorLabels turns on coloured labels for output of ranks that goes to the terminal and not to files.
func colorLabels(s *job.Streams, line option.Line, sys System) {
	s.Out.Color = s.Out.File == "" && useColor(line.Job.Color, sys.getenv, isTerminal(sys.Out))
	s.Err.Color = s.Err.File == "" && useColor(line.Job.Color, sys.getenv, isTerminal(sys.Err))
}

// showProgress shows the progress of the start in one line that is updated, if standard error is a terminal
// (rule DIAG-6).
func showProgress(line option.Line, sys System, env *launch.Env) {
	if !isTerminal(sys.Err) || sys.getenv("TERM") == "dumb" || line.Job.Verbosity != 0 {
		return
	}
	if env.ProgressAfter = progressDelay; line.Job.Progress {
		env.ProgressAfter = 0
	}
	file := sys.Err.(*os.File)
	env.Progress = func(text string) {
		text = format.EscapeSentence(text)
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			if letters := []rune(text); len(letters) >= width {
				text = string(letters[:width-1])
			}
		}
		fmt.Fprintf(file, "\r\x1b[K%s", text)
	}
}

// rankInput returns the standard input for ranks, or nil if they have none. They have none if mpiexec has
// read a host file or rank file from standard input (rule IO-6).
func rankInput(line option.Line, s job.Streams, stdin io.Reader) (io.Reader, error) {
	taken := line.Job.RankFile == "-"
	for _, app := range line.Apps {
		taken = taken || app.HostFile == "-"
	}
	switch {
	case s.StdinFile != "":
		file, err := os.Open(s.StdinFile)
		if err != nil {
			return nil, &usererr.Error{Text: "-stdin: " + err.Error()}
		}
		return file, nil
	case taken || s.Stdin != nil && len(s.Stdin) == 0:
		return nil, nil
	}
	return newForegroundReader(stdin), nil
}

// reportUnreadInput prints a note on a terminal if mpiexec has read input from a pipe that no rank has read. Such
// input is lost: in a shell loop that reads a pipe line by line, the first job would take all lines. Nothing is lost
// if the input is a file, because mpiexec seeks back to the unread part.
func (c *invocation) reportUnreadInput() {
	if !isTerminal(c.sys.Err) || isTerminal(c.sys.In) || c.req.Streams.StdinFile != "" {
		return
	}
	c.env.UnreadInput = func(bytes int64) {
		c.env.Report(fmt.Sprintf("note: mpiexec read %s of standard input that no rank used; to leave standard input unread, use -stdin none", text.Count(int(bytes), "byte")))
	}
}

// newPrinters returns the printers of standard output and standard error, for the ranks' output and
// mpiexec's own lines. If events go to standard output, both write to standard error.
func newPrinters(line option.Line, sys System) (out, errs *stdio.Printer) {
	if line.Job.JSON == "-" && startsRanks(line) {
		return stdio.Stdout(plainWriter{sys.Err}), stdio.Stderr(plainWriter{sys.Err})
	}
	return stdio.Stdout(sys.Out), stdio.Stderr(sys.Err)
}

// A plainWriter hides from a printer that a stream is a file. A printer may write a line to a file in several calls
// of Write, and lines of another printer could come between them. To any other writer, it writes everything with one
// call.
type plainWriter struct{ io.Writer }
