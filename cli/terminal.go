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

// foregroundPoll is how often a job in the background looks whether it was brought to
// the foreground. No signal tells.
const foregroundPoll = 200 * time.Millisecond

// newForegroundReader keeps from reading a terminal while we are in its background: the kernel
// would stop us with SIGTTIN, and `mpiexec ... &` would never end (IO-5).
//
// Nor may a read wait that we have begun in the foreground: after ^Z and bg the kernel
// begins it again, in the background. So we wait for something to read, and then read.
func newForegroundReader(in io.Reader) io.Reader {
	file, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return in
	}
	return foregroundTerminal{file}
}

// A foregroundTerminal is read in the foreground only.
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

// awaitInput waits until there is something to read, or the end of it.
func (t foregroundTerminal) awaitInput() {
	fds := []unix.PollFd{{Fd: int32(t.Fd()), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err != unix.EINTR {
			return
		}
	}
}

// isForeground reports whether our process group has the terminal. If that cannot be told,
// the terminal is not our controlling one, and reading it stops nobody.
func (t foregroundTerminal) isForeground() bool {
	group, err := unix.IoctlGetInt(int(t.Fd()), unix.TIOCGPGRP)
	return err != nil || group == syscall.Getpgrp()
}

// lendTerminal gives our terminal, if we have it, to the ranks with pseudo-terminals:
// every key is theirs, ^C too. Only what becomes of newlines on their way out stays, for
// our own lines.
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
			if (foregroundTerminal{file}).isForeground() { // else the kernel would stop us
				term.Restore(fd, before)
			}
		})
	}
	return func() {
		signal.Stop(resized)
		term.Restore(fd, before)
	}, nil
}

// progressDelay is how long a start may take until a terminal shows how far it has come.
const progressDelay = 2 * time.Second

// isTerminal reports whether somebody reads a stream as it is written.
func isTerminal(w any) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// useColor reports whether there is to be colour on a stream (DIAG-8): NO_COLOR wins over
// all, and a terminal that can do nothing gets none unless somebody insists.
func useColor(when string, getenv func(string) string, terminal bool) bool {
	switch {
	case when == "never", getenv("NO_COLOR") != "":
		return false
	case when == "always", getenv("CLICOLOR_FORCE") != "" && getenv("CLICOLOR_FORCE") != "0":
		return true
	}
	return terminal && getenv("TERM") != "dumb"
}

// colorLabels colours labels, of the streams that go to us alone.
func colorLabels(s *job.Streams, line option.Line, sys System) {
	s.Out.Color = s.Out.File == "" && useColor(line.Job.Color, sys.getenv, isTerminal(sys.Out))
	s.Err.Color = s.Err.File == "" && useColor(line.Job.Color, sys.getenv, isTerminal(sys.Err))
}

// showProgress has a start tell how far it has come, in one line that is written again
// and again: only for somebody at a terminal (DIAG-6).
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

// rankInput is what ranks read; nil: nothing. Standard input that is the host file or the
// rank file is not for them (IO-6).
func rankInput(line option.Line, s job.Streams, stdin io.Reader) (io.Reader, error) {
	taken := line.Job.RankFile == "-"
	for _, section := range line.Apps {
		taken = taken || section.HostFile == "-"
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

// reportUnreadInput has somebody at a terminal read of input that is lost: in a loop of a shell over lines that come by a pipe, the first
// job takes those of the others. What is left of a file is given back.
func (c *invocation) reportUnreadInput() {
	if !isTerminal(c.sys.Err) || isTerminal(c.sys.In) || c.req.Streams.StdinFile != "" {
		return
	}
	c.env.UnreadInput = func(bytes int64) {
		c.env.Report(fmt.Sprintf("note: mpiexec has taken %s of standard input, and no rank has read any; -stdin none leaves them to other commands", text.Count(int(bytes), "byte")))
	}
}

// newPrinters write what the ranks write, and our own lines. Where events have the place of standard
// output, both streams go to standard error.
func newPrinters(j option.JobOptions, sys System) (out, errs *stdio.Printer) {
	if j.JSON == "-" && startsRanks(j) {
		return stdio.Stdout(plainWriter{sys.Err}), stdio.Stderr(plainWriter{sys.Err})
	}
	return stdio.Stdout(sys.Out), stdio.Stderr(sys.Err)
}

// Unvectored hides that a stream is a file, to which pieces would go one by one, with the other
// printer's between them: a write of a file is whole.
type plainWriter struct{ io.Writer }
