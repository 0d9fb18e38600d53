package transport

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"remshell/batch"
	"remshell/deadline"
)

const (
	lineMarker = "\x1eremshell " // begins each line of the far end
	maxNoise   = 1 << 20         // of a login shell, before the first line
	maxLine    = 8 << 10
	maxDirs    = 4 // folders that are tried (script.go)

	// maxInFlight is how much of the program may be on its way when all of it has been written: an SSH channel
	// holds 2 MiB (OpenSSH, CHAN_SES_WINDOW_DEFAULT), and the sockets have buffers.
	maxInFlight = 4 << 20
)

// errTooMuchText is what a far end that talks without end is told by.
var errTooMuchText = errors.New("too much text before /bin/sh answered; the login shell prints it")

// errStepTimeout is the cause of a context that ended because a step took too long.
var errStepTimeout = errors.New("no answer in time")

// stepTimeouts are how long the steps of a delivery may take.
type stepTimeouts struct {
	shell  time.Duration // until /bin/sh has answered
	others time.Duration // each step after that; the delivery has the time for its bytes as well

	// What waits if there is no answer in the first step. Empty: perhaps nothing, since nobody knows whether the host was reached.
	suspect string
}

// programTimeouts are those of a program that logs in, and does not tell when it has.
func programTimeouts(login, shell time.Duration) stepTimeouts {
	return stepTimeouts{shell: loginTimeout(login) + shellTimeout(shell), others: shellTimeout(shell)}
}

// deliver holds the conversation at the top of this package over l, until the
// helper has spoken. On failure l is closed. The first step, that of the shell, has begun with limit.
func (s HelperBinary) deliver(limit *deadline.Deadline, host string, l helperLink, times stepTimeouts) (*Conn, error) {
	defer limit.Stop()
	ctx := limit.Context()
	said := make(chan string, 1) // on standard error before l was closed: a shell may complain of that
	unhook := context.AfterFunc(ctx, func() {
		said <- l.stderr()
		l.Close()
	})
	d := &delivery{self: s, host: host, Conn: newConn(l), limit: limit, timeouts: times}
	d.build = s.Build
	d.beginStep("shell")
	err := d.converse()
	switch inTime := unhook(); {
	case !inTime:
		err = d.contextError(context.Cause(ctx), lastLine(<-said))
	case err == nil:
		d.endStep(nil)
		return d.Conn, nil
	}
	d.endStep(err)
	d.Conn.Close()
	return nil, err
}

// A delivery is one conversation.
type delivery struct {
	*Conn
	self          HelperBinary
	host          string
	limit         *deadline.Deadline
	timeouts      stepTimeouts
	writeErr      error         // an error of a write, which may have its reason in what is still to be read
	shellAnswered bool          // /bin/sh has spoken
	sending       bool          // the program was asked for
	transferTime  time.Duration // how long the host may take to say that it has the program; 0: not all of it is sent
	endStep       func(error)   // of the step that is under way; nil: none is
}

// beginTimedStep begins a step that has a time of its own.
func (d *delivery) beginTimedStep(name string) {
	d.limit.BeginStep(d.timeouts.others)
	d.beginStep(name)
}

// beginStep tells the watch of the way that a step has begun, and that the one before it has ended well.
func (d *delivery) beginStep(name string) {
	if d.endStep != nil {
		d.endStep(nil)
	}
	d.endStep = d.self.tracer.begin(d.host, name)
}

// sources are where a node may have the program from.
var sources = []string{"shared", "cache", "sent", "told"}

func (d *delivery) converse() error {
	if _, err := io.WriteString(d.link, d.self.deliveryScript(newFileTag())); err != nil {
		d.writeErr = err
	}
	for needs := 0; ; {
		verb, text, err := d.readLine()
		if err != nil {
			return d.linkError(err)
		}
		switch {
		case verb == "shell":
		case verb == "need":
			if needs++; needs > maxDirs {
				return d.newError("deliver", KindOther, "the node asks for the program again and again")
			}
			d.sending, d.transferTime = true, 0
			d.beginTimedStep("delivery")
			if d.self.dialBack != nil {
				d.self.dialBack.sendsProgram(d.self.Size)
			}
			if err := d.sendProgram(); err != nil {
				return err
			}
		case verb == "apart" && d.self.attach != nil: // else nobody asked, or it has been said
			d.self.attach.apart(d.host, text)
			d.self.attach = nil
		case verb == "run" && slices.Contains(sources, text):
			d.source = text
			d.beginTimedStep("helper")
			if d.self.dialBack != nil {
				return d.awaitDialBack()
			}
			return d.awaitHelper()
		case verb == "fail":
			if again, err := d.retryOtherMachine(text); !again {
				return err
			}
		default:
			d.noise = append(d.noise, lineMarker+verb+" "+text+"\n"...)
		}
	}
}

// retryOtherMachine lets a node of another kind look for the program that is for it. Once: what it
// says then is its last word.
func (d *delivery) retryOtherMachine(line string) (again bool, err error) {
	code, uname, _ := strings.Cut(line, " ")
	if code != "machine" || d.self.goos != "" {
		return false, d.failLineError(line)
	}
	other, err := d.self.ForMachine(uname)
	if err != nil {
		e := d.failLineError(line).(*Error)
		var none *noBinaryError
		if errors.As(err, &none) {
			e.Why += fmt.Sprintf(", and there is no %s", none.files[0])
			e.Remedy = "install the archive that has it, or put mpiexec for such nodes there"
		} else if d.self.Path != "" {
			e.Why += ": " + err.Error()
		}
		return false, e.withCause(err)
	}
	d.self, d.build = other, other.Build
	if _, err := io.WriteString(d.link, d.self.deliveryScript(newFileTag())); err != nil {
		d.writeErr = err
	}
	return true, nil
}

// readLine reads the next line of the far end; what comes before it is noise.
func (d *delivery) readLine() (verb, text string, err error) {
	for {
		noise, err := d.readUntil(lineMarker[0], maxNoise)
		d.noise = append(d.noise, noise...)
		if err != nil {
			return "", "", err
		}
		if len(d.noise) > maxNoise {
			return "", "", errTooMuchText
		}
		line, err := d.readUntil('\n', maxLine)
		if err != nil {
			d.noise = append(d.noise, line...)
			return "", "", err
		}
		if rest, ok := strings.CutPrefix(lineMarker[:1]+string(line), lineMarker); ok {
			if !d.shellAnswered { // what it says more does not give it more time
				d.shellAnswered, d.shell = true, d.timeouts.shell-d.limit.Left()
				d.limit.BeginStep(d.timeouts.others)
			}
			verb, text, _ = strings.Cut(rest, " ")
			return verb, text, nil
		}
		d.noise = append(append(d.noise, lineMarker[0]), line...)
		d.noise = append(d.noise, '\n')
	}
}

// readUntil reads up to a byte, which is taken but not returned, or limit bytes.
func (d *delivery) readUntil(end byte, limit int) ([]byte, error) {
	var got []byte
	for len(got) <= limit {
		if _, err := d.in.Peek(1); err != nil {
			return got, err
		}
		ready, _ := d.in.Peek(d.in.Buffered())
		i := bytes.IndexByte(ready, end)
		if i >= 0 {
			got = append(got, ready[:i]...)
			d.in.Discard(i + 1)
			return got, nil
		}
		got = append(got, ready...)
		d.in.Discard(len(ready))
	}
	return got, errTooMuchText
}

// sendProgram sends the program. That the far side takes no more is not an error yet: it
// may have said why.
func (d *delivery) sendProgram() error {
	if d.writeErr != nil {
		return nil
	}
	program, err := d.self.Open()
	if err != nil {
		return d.newError("deliver", KindOther, "read own program: %v", err)
	}
	defer program.Close()
	chunk := make([]byte, 64<<10)
	for left := d.self.Size; left > 0; {
		n, err := io.ReadFull(program, chunk[:min(int64(len(chunk)), left)])
		if err != nil {
			return d.newError("deliver", KindOther, "read own program: %v", err)
		}
		n, err = d.link.Write(chunk[:n])
		left -= int64(n)
		d.sent += int64(n)
		d.limit.CountTaken(n)
		if err != nil {
			d.writeErr = err
			return nil
		}
	}
	d.transferTime = d.timeouts.others + deadline.TimeFor(int(min(d.self.Size, maxInFlight)))
	d.limit.BeginStep(d.transferTime)
	return nil
}

// awaitHelper waits for the first byte of the helper and leaves it to be read.
func (d *delivery) awaitHelper() error {
	if _, err := d.in.Peek(1); err != nil {
		return d.linkError(err)
	}
	return nil
}

// awaitDialBack invites the helper to call us, and takes its call for the stream; or, where it cannot call, stays with
// the one that there is.
func (d *delivery) awaitDialBack() error {
	if _, err := io.WriteString(d.link, d.self.dialBack.owner.joinToken); err != nil {
		d.writeErr = err
	}
	stays := make(chan noDialBack, 1)
	go func(in *bufio.Reader) { stays <- readNoDialBack(in) }(d.in) // of one that calls: all that it says until its end
	select {
	case conn := <-d.self.dialBack.stream:
		called := newConn(d.self.dialBack.newLink(conn, d.self.dialBack.starter))
		called.source, called.noise, called.sent, called.build = d.source, d.noise, d.sent, d.build
		d.Conn = called
		return nil
	case s := <-stays:
		if s.err != nil {
			return d.linkError(s.err)
		}
		d.self.dialBack.cannotDialBack(s.why)
		return d.awaitHelper()
	}
}

// A noDialBack is what a helper says that cannot call us: why; or that its stream has ended before it said so.
type noDialBack struct {
	why string
	err error
}

// noDialBackVerb begins it.
const noDialBackVerb = "stay "

// ReportStaysOnStream is how a helper says that it cannot call, and why, before it speaks over the stream that it was invited by.
func ReportStaysOnStream(out io.Writer, why error) {
	fmt.Fprintf(out, "%s%s%s\n", lineMarker, noDialBackVerb, why)
}

// readNoDialBack reads that, and not a byte more. Whatever else is said it drops, until the end.
func readNoDialBack(in *bufio.Reader) noDialBack {
	for whole := true; ; {
		line, err := in.ReadSlice('\n')
		why, ours := strings.CutPrefix(string(line), lineMarker+noDialBackVerb)
		switch {
		case err == nil && ours && whole:
			return noDialBack{why: strings.TrimRight(why, "\r\n")}
		case err != nil && err != bufio.ErrBufferFull:
			return noDialBack{err: err}
		}
		whole = err == nil
	}
}

// failLineError is the error for a fail line: a code, and text.
func (d *delivery) failLineError(line string) error {
	code, text, _ := strings.Cut(line, " ")
	switch {
	case code == "machine":
		goos, goarch := d.self.targetSystem()
		e := d.newError("deliver", KindMachine, "the node is %s, this mpiexec is for %s %s", text, goos, goarch)
		e.Remedy = "start from a host of the same kind"
		return e
	case code == "told":
		e := d.newError("deliver", KindMissing, "%s: %s", d.self.nodePath, text)
		e.Remedy = "correct the path, or take it out of the host file: mpiexec sends itself"
		return e
	case code == "never":
		e := d.newError("deliver", KindMissing, "mpiexec is not on the node, and nothing is sent (--ship-helper never)")
		e.Remedy = "send it with --ship-helper, or name its path there with path= in a host file"
		return e
	case code == "space":
		kib, _ := strconv.Atoi(text)
		e := d.newError("start", KindOther, "address space is limited to %d MB, the helper needs %d MB", kib>>10, minAddressSpace>>10)
		e.Remedy = "raise ulimit -v there, or ask the batch system for more (" + batch.MemoryOptions() + ")"
		return e
	case code == "store" && strings.Contains(text, "noexec"):
		e := d.newError("deliver", KindNoexec, "no folder of the node lets a program be executed: %s", text)
		e.Remedy = "set XDG_CACHE_HOME there to one that does, or install mpiexec under the same path"
		return e
	case code == "store":
		e := d.newError("deliver", KindStore, "no folder of the node takes the program: %s", text)
		e.Remedy = "make room there, or install mpiexec under the same path"
		return e
	}
	return d.newError("deliver", KindOther, "%s", line)
}

// programEndTime is how long a program whose stream has ended is given to end, and so to say why: on a busy
// machine more than a second passes between the last close and the exit of an ssh.
const programEndTime = 10 * time.Second

// linkError is the error of a link that ended before the helper spoke.
func (d *delivery) linkError(err error) error {
	if err == errTooMuchText {
		return d.newError("session", KindSession, "%v", err)
	}
	end := d.link.ended(programEndTime)
	if end.err != nil {
		return end.err
	}
	if d.source != "" {
		e := d.newError("helper", KindHelper, "the helper ended at once: %s", end.why)
		if v := d.link.verdict(end.exit); v.Kind == KindNoexec || v.Kind == KindMissing {
			e.Kind, e.Why, e.Remedy = v.Kind, v.Why, v.Hint
			if v.Kind == KindMissing {
				e.Remedy = "send it anew with --ship-helper, or name its path there with path= in a host file"
			}
		} else if d.source == "cache" {
			// A file that was damaged after its delivery would fail at every start.
			e.Remedy = "if it does so again, its copy there may be damaged: send it anew with --ship-helper"
		}
		return e.withCause(err)
	}
	v := d.link.verdict(end.exit)
	e := d.newError(v.Step, v.Kind, "%s", v.Why).withCause(err)
	e.Details, e.Remedy = v.Line, strings.ReplaceAll(v.Hint, "HOST", d.host)
	if len(d.noise) > 0 && (v.Kind == KindOther || v.Kind == KindSession) {
		e.Why += fmt.Sprintf("; it printed %q", lastLine(string(d.noise)))
	}
	return e
}

// contextError is the error when a context ended the conversation; said is the last line on standard error until then.
func (d *delivery) contextError(cause error, said string) *Error {
	late := func(step string, kind Kind, remedy, why string, args ...any) *Error {
		e := d.newError(step, kind, why, args...).withCause(cause)
		e.Details, e.Remedy = said, remedy
		return e
	}
	switch {
	case !errors.Is(cause, errStepTimeout) && !errors.Is(cause, context.DeadlineExceeded):
		return late("connect", KindCanceled, "", "given up: %v", cause)
	case d.source != "":
		return late("helper", KindNoRoute, "", "the helper did not answer in %s", formatSeconds(d.timeouts.others))
	case d.transferTime > 0:
		return late("deliver", KindNoRoute, "does a file system hang there? try: ssh "+d.host+" ls -la .cache; or raise --shell-timeout",
			"our program was sent, and /bin/sh did not run it in %s", formatSeconds(d.transferTime))
	case d.sending:
		return late("deliver", KindNoRoute, "install mpiexec there, and name its path with path= in a host file; or raise --shell-timeout",
			"it takes our program at less than %d KB/s", deadline.MinRate/1000)
	case d.shellAnswered:
		return late("deliver", KindNoRoute, "does a file system hang there? try: ssh "+d.host+" ls -la .cache; or raise --shell-timeout",
			"/bin/sh did not find in %s whether our program is there", formatSeconds(d.timeouts.others))
	case d.timeouts.suspect == "" && len(d.noise) == 0:
		return late("connect", KindNoRoute, "", "cannot reach: no answer in %s", formatSeconds(d.timeouts.shell))
	}
	// The login shell waits for something in a start-up file, or that runs another program for ever.
	e := late("shell", KindShell, fmt.Sprintf("see what %s does there: ssh %s true; or raise --shell-timeout", StartupFile(d.self.loginShell), d.host),
		"%s did not run /bin/sh in %s; it printed ", cmp.Or(d.timeouts.suspect, "the login shell"), formatSeconds(d.timeouts.shell))
	switch noise := lastLine(string(d.noise)); {
	case noise != "":
		e.Why += strconv.Quote(noise)
	case said != "":
		e.Why += strconv.Quote(said)
		e.Details = "" // it is told
	default:
		e.Why += "nothing"
	}
	return e
}

func (d *delivery) newError(step string, kind Kind, why string, args ...any) *Error {
	return &Error{Host: d.host, Step: step, Kind: kind, Why: fmt.Sprintf(why, args...), Raw: d.link.stderr()}
}

func (e *Error) withCause(err error) *Error {
	e.Err = err
	return e
}

// formatSeconds writes 60 s or 0.3 s.
func formatSeconds(d time.Duration) string { return fmt.Sprintf("%g s", d.Seconds()) }

// lastLine is the last line that says something, shortened.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	line := strings.TrimSpace(lines[len(lines)-1])
	if len(line) > 200 {
		line = line[:200] + "..."
	}
	return line
}
