package cli

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/term"

	"remshell/cli/option"
	"remshell/job"
	"remshell/launch"
	"remshell/show"
)

// lateStart is how long a start may take until a terminal shows how far it has come.
const lateStart = 2 * time.Second

// isTerminal reports whether somebody reads a stream as it is written.
func isTerminal(w any) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// coloured reports whether there is to be colour on a stream (DIAG-8): NO_COLOR wins over
// all, and a terminal that can do nothing gets none unless somebody insists.
func coloured(when string, getenv func(string) string, terminal bool) bool {
	switch {
	case when == "never", getenv("NO_COLOR") != "":
		return false
	case when == "always", getenv("CLICOLOR_FORCE") != "" && getenv("CLICOLOR_FORCE") != "0":
		return true
	}
	return terminal && getenv("TERM") != "dumb"
}

// paint colours labels, of the streams that go to us alone.
func paint(s *job.Streams, line option.Line, sys System) {
	s.Out.Color = s.Out.File == "" && coloured(line.Job.Color, sys.getenv, isTerminal(sys.Out))
	s.Err.Color = s.Err.File == "" && coloured(line.Job.Color, sys.getenv, isTerminal(sys.Err))
}

// showProgress has a start tell how far it has come, in one line that is written again
// and again: only for somebody at a terminal (DIAG-6).
func showProgress(line option.Line, sys System, env *launch.Env) {
	if !isTerminal(sys.Err) || sys.getenv("TERM") == "dumb" || line.Job.Verbosity != 0 {
		return
	}
	if env.Late = lateStart; line.Job.Progress {
		env.Late = 0
	}
	file := sys.Err.(*os.File)
	env.Progress = func(text string) {
		text = show.Clean(text)
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			if letters := []rune(text); len(letters) >= width {
				text = string(letters[:width-1])
			}
		}
		fmt.Fprintf(file, "\r\x1b[K%s", text)
	}
}
