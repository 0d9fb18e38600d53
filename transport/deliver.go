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
	lineMarker = "\x1eremshell " // begins each line that the host sends
	maxNoise   = 1 << 20         // longest output of a login shell before the first such line
	maxLine    = 8 << 10
	maxDirs    = 4 // number of directories that are tried (script.go)

	// maxInFlight is the maximum number of bytes of the helper's binary that are still on the way to the host
	// when all bytes have been written. An SSH channel holds 2 MiB (OpenSSH, CHAN_SES_WINDOW_DEFAULT), and the
	// sockets have buffers.
	maxInFlight = 4 << 20
)

// errTooMuchText is returned if a host sends too much text that is not part of the protocol.
var errTooMuchText = errors.New("the login shell printed too much text before /bin/sh answered")

// errStepTimeout is the cancellation cause of a context if a step took too long.
var errStepTimeout = errors.New("the host did not answer in time")

// stepTimeouts are the time limits for the steps of a delivery.
type stepTimeouts struct {
	shell  time.Duration // until /bin/sh has replied
	others time.Duration // for each later step; sending the binary gets more, by its size

	// suspect names the program that hangs if the first step gets no reply. It is empty if it is not even known
	// whether the host was reached.
	suspect string
}

// programTimeouts returns the time limits for a program, such as ssh, that does the login itself and does not
// report when the login is complete.
func programTimeouts(login, shell time.Duration) stepTimeouts {
	return stepTimeouts{shell: loginTimeout(login) + shellTimeout(shell), others: shellTimeout(shell)}
}

// deliver runs, over the link l, the protocol that the package comment describes, until the helper has sent its first
// byte. If that fails, it closes l. limit is the deadline of the first step, which waits for the shell and has already
// begun.
func (s HelperBinary) deliver(limit *deadline.Deadline, host string, l helperLink, times stepTimeouts) (*Conn, error) {
	defer limit.Stop()
	ctx := limit.Context()
	stderr := make(chan string, 1) // stderr before l was closed; a shell may complain about the closing
	unhook := context.AfterFunc(ctx, func() {
		stderr <- l.stderr()
		l.Close()
	})
	d := &delivery{self: s, host: host, Conn: newConn(l), limit: limit, timeouts: times}
	d.build = s.Build
	d.beginStep("shell")
	err := d.converse()
	switch inTime := unhook(); {
	case !inTime:
		err = d.contextError(context.Cause(ctx), lastLine(<-stderr))
	case err == nil:
		d.endStep(nil)
		return d.Conn, nil
	}
	d.endStep(err)
	d.Conn.Close()
	return nil, err
}

// A delivery is one run of the protocol that sends the helper's program to a host and starts it. The package comment
// describes the protocol.
type delivery struct {
	*Conn
	self         HelperBinary
	host         string
	limit        *deadline.Deadline
	timeouts     stepTimeouts
	writeErr     error         // error of a write; the host's reason may still be waiting to be read
	shellReplied bool          // /bin/sh has replied
	sending      bool          // the host has requested the binary
	transferTime time.Duration // how long the host may take to confirm the binary; 0 until all of it is sent
	endStep      func(error)   // ends the current trace step; nil if there is none
}

// beginTimedStep begins a step of the delivery with the time limit of that step.
func (d *delivery) beginTimedStep(name string) {
	d.limit.BeginStep(d.timeouts.others)
	d.beginStep(name)
}

// beginStep begins a step in the trace. It also records that the previous step has ended successfully.
func (d *delivery) beginStep(name string) {
	if d.endStep != nil {
		d.endStep(nil)
	}
	d.endStep = d.self.tracer.begin(d.host, name)
}

// sources are the words with which the delivery script reports from where a node runs the binary (see Conn.Source).
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
				return d.newError("deliver", KindOther, "the host requested the copy of mpiexec too often")
			}
			d.sending, d.transferTime = true, 0
			d.beginTimedStep("delivery")
			if d.self.dialBack != nil {
				d.self.dialBack.sendsProgram(d.self.Size)
			}
			if err := d.sendProgram(); err != nil {
				return err
			}
		case verb == "apart" && d.self.attach != nil: // else it was not requested, or was already reported
			d.self.attach.failed(d.host, text)
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

// retryOtherMachine sends the delivery script again, for the binary of the node's architecture. line is the content of
// a "fail" line of the script. If it does not report another architecture, or if the script has already been sent
// again, retryOtherMachine returns an error.
func (d *delivery) retryOtherMachine(line string) (retried bool, err error) {
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
			e.Remedy = "install the archive that contains this file, or copy an mpiexec for such nodes to this path"
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

// readLine reads the next line of the protocol. It keeps any other text before that line as noise.
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
			if !d.shellReplied { // later lines do not give the shell more time
				d.shellReplied, d.shell = true, d.timeouts.shell-d.limit.Left()
				d.limit.BeginStep(d.timeouts.others)
			}
			verb, text, _ = strings.Cut(rest, " ")
			return verb, text, nil
		}
		d.noise = append(append(d.noise, lineMarker[0]), line...)
		d.noise = append(d.noise, '\n')
	}
}

// readUntil reads until a byte equals end, and returns the bytes before that byte. It returns an error if there are
// more than limit of them.
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

// sendProgram sends the helper's binary to the host. It ignores a failed write, because the host may have sent
// the reason, which is read afterwards.
func (d *delivery) sendProgram() error {
	if d.writeErr != nil {
		return nil
	}
	program, err := d.self.Open()
	if err != nil {
		return d.newError("deliver", KindOther, "cannot read the executable of this mpiexec: %v", err)
	}
	defer program.Close()
	chunk := make([]byte, 64<<10)
	for left := d.self.Size; left > 0; {
		n, err := io.ReadFull(program, chunk[:min(int64(len(chunk)), left)])
		if err != nil {
			return d.newError("deliver", KindOther, "cannot read the executable of this mpiexec: %v", err)
		}
		n, err = d.link.Write(chunk[:n])
		left -= int64(n)
		d.sent += int64(n)
		d.limit.ExtendForBytes(n)
		if err != nil {
			d.writeErr = err
			return nil
		}
	}
	d.transferTime = d.timeouts.others + deadline.TimeFor(int(min(d.self.Size, maxInFlight)))
	d.limit.BeginStep(d.transferTime)
	return nil
}

// awaitHelper waits until the helper's first byte has arrived, but does not consume it.
func (d *delivery) awaitHelper() error {
	if _, err := d.in.Peek(1); err != nil {
		return d.linkError(err)
	}
	return nil
}

// awaitDialBack sends the join token to the helper, and then uses the connection that the helper makes. If
// the helper cannot connect, the stream over which the token was sent remains in use.
func (d *delivery) awaitDialBack() error {
	if _, err := io.WriteString(d.link, d.self.dialBack.owner.joinToken); err != nil {
		d.writeErr = err
	}
	cannot := make(chan dialBackFailure, 1)
	go func(in *bufio.Reader) { cannot <- readDialBackFailure(in) }(d.in) // if the helper connects, this reads the old stream to its end
	select {
	case conn := <-d.self.dialBack.stream:
		connected := newConn(d.self.dialBack.newLink(conn, d.self.dialBack.starter))
		connected.source, connected.noise, connected.sent, connected.build = d.source, d.noise, d.sent, d.build
		d.Conn = connected
		return nil
	case s := <-cannot:
		if s.err != nil {
			return d.linkError(s.err)
		}
		d.self.dialBack.cannotDialBack(s.why)
		return d.awaitHelper()
	}
}

// A dialBackFailure is a helper's report that it cannot connect to mpiexec, with the reason. err is set if the stream
// ended before a report came.
type dialBackFailure struct {
	why string
	err error
}

// dialBackFailureVerb is the beginning of the line in which a helper reports that it cannot connect to mpiexec.
const dialBackFailureVerb = "stay "

// ReportStaysOnStream writes a helper's report that it cannot connect to mpiexec, with the reason. The
// helper then uses the stream on which it received the join token.
func ReportStaysOnStream(out io.Writer, cause error) {
	fmt.Fprintf(out, "%s%s%s\n", lineMarker, dialBackFailureVerb, cause)
}

// readDialBackFailure reads until the end of a dialBackFailure. It drops other text that comes before the
// dialBackFailure.
func readDialBackFailure(in *bufio.Reader) dialBackFailure {
	for whole := true; ; {
		line, err := in.ReadSlice('\n')
		why, isReport := strings.CutPrefix(string(line), lineMarker+dialBackFailureVerb)
		switch {
		case err == nil && isReport && whole:
			return dialBackFailure{why: strings.TrimRight(why, "\r\n")}
		case err != nil && err != bufio.ErrBufferFull:
			return dialBackFailure{err: err}
		}
		whole = err == nil
	}
}

// failLineError returns the error for a "fail" line of the protocol, which contains a code and a message.
func (d *delivery) failLineError(line string) error {
	code, text, _ := strings.Cut(line, " ")
	switch {
	case code == "machine":
		goos, goarch := d.self.targetSystem()
		e := d.newError("deliver", KindMachine, "the node has the system %s, but this mpiexec is for %s %s", text, goos, goarch)
		e.Remedy = "start the job from a host of the same kind"
		return e
	case code == "told":
		e := d.newError("deliver", KindMissing, "%s: %s", d.self.nodePath, text)
		e.Remedy = "correct the path, or remove it from the host file; then mpiexec copies itself"
		return e
	case code == "never":
		e := d.newError("deliver", KindMissing, "mpiexec is not on the node, and mpiexec does not copy it (--ship-helper never)")
		e.Remedy = "copy it with --ship-helper auto, or give its path on the node with path= in a host file"
		return e
	case code == "space":
		kib, _ := strconv.Atoi(text)
		e := d.newError("start", KindOther, "the address space of processes on the node is limited to %d MB, but the helper needs %d MB", kib>>10, minAddressSpace>>10)
		e.Remedy = "raise ulimit -v on the node, or request more memory from the batch system (" + batch.MemoryOptions() + ")"
		return e
	case code == "store" && strings.Contains(text, "noexec"):
		e := d.newError("deliver", KindNoexec, "no folder of the node allows programs to run: %s", text)
		e.Remedy = "set XDG_CACHE_HOME on the node to a folder from which programs can run, or install mpiexec under the same path as here"
		return e
	case code == "store":
		e := d.newError("deliver", KindStore, "mpiexec could not be stored in any folder of the node: %s", text)
		e.Remedy = "free disk space there, or install mpiexec under the same path as here"
		return e
	}
	return d.newError("deliver", KindOther, "%s", line)
}

// programEndTime is the maximum time to wait for the exit code of a program whose streams have ended. On a busy
// machine, ssh may exit more than a second after it has closed its streams.
const programEndTime = 10 * time.Second

// linkError returns the error for a connection that ended before the helper's first byte.
func (d *delivery) linkError(err error) error {
	if err == errTooMuchText {
		return d.newError("session", KindSession, "%v", err)
	}
	end := d.link.ended(programEndTime)
	if end.err != nil {
		return end.err
	}
	if d.source != "" {
		e := d.newError("helper", KindHelper, "the helper ended immediately after its start: %s", end.why)
		if v := d.link.verdict(end.exit); v.Kind == KindNoexec || v.Kind == KindMissing {
			e.Kind, e.Why, e.Remedy = v.Kind, v.Why, v.Hint
			if v.Kind == KindMissing {
				e.Remedy = "copy it again with --ship-helper always, or give its path on the node with path= in a host file"
			}
		} else if d.source == "cache" {
			// A file that was damaged after its delivery would fail at every start.
			e.Remedy = "if this repeats, the copy on the node may be damaged: copy it again with --ship-helper always"
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

// contextError returns the error for a delivery whose context ended because of cause. stderr is the last line that
// the remote side has written to standard error.
func (d *delivery) contextError(cause error, stderr string) *Error {
	late := func(step string, kind Kind, remedy, why string, args ...any) *Error {
		e := d.newError(step, kind, why, args...).withCause(cause)
		e.Details, e.Remedy = stderr, remedy
		return e
	}
	switch {
	case !errors.Is(cause, errStepTimeout) && !errors.Is(cause, context.DeadlineExceeded):
		return late("connect", KindCanceled, "", "cancelled: %v", cause)
	case d.source != "":
		return late("helper", KindNoRoute, "", "the helper did not answer within %s", formatSeconds(d.timeouts.others))
	case d.transferTime > 0:
		return late("deliver", KindNoRoute, "check whether a file system hangs there: ssh "+d.host+" ls -la .cache; or raise --shell-timeout",
			"mpiexec was copied, but /bin/sh did not start it within %s", formatSeconds(d.transferTime))
	case d.sending:
		return late("deliver", KindNoRoute, "install mpiexec there and give its path with path= in a host file, or raise --shell-timeout",
			"the copy of mpiexec arrives at less than %d KB/s", deadline.MinRate/1000)
	case d.shellReplied:
		return late("deliver", KindNoRoute, "check whether a file system hangs there: ssh "+d.host+" ls -la .cache; or raise --shell-timeout",
			"/bin/sh did not report within %s whether mpiexec is there", formatSeconds(d.timeouts.others))
	case d.timeouts.suspect == "" && len(d.noise) == 0:
		return late("connect", KindNoRoute, "", "the host did not answer within %s", formatSeconds(d.timeouts.shell))
	}
	// The login shell hangs in a start-up file, or the file runs another program for ever.
	e := late("shell", KindShell, fmt.Sprintf("see what %s does there: ssh %s true; or raise --shell-timeout", StartupFile(d.self.loginShell), d.host),
		"%s did not run /bin/sh within %s; it printed ", cmp.Or(d.timeouts.suspect, "the login shell"), formatSeconds(d.timeouts.shell))
	switch noise := lastLine(string(d.noise)); {
	case noise != "":
		e.Why += strconv.Quote(noise)
	case stderr != "":
		e.Why += strconv.Quote(stderr)
		e.Details = "" // Why has it
	default:
		e.Why += "nothing"
	}
	return e
}

func (d *delivery) newError(step string, kind Kind, reason string, args ...any) *Error {
	return &Error{Host: d.host, Step: step, Kind: kind, Why: fmt.Sprintf(reason, args...), Raw: d.link.stderr()}
}

func (e *Error) withCause(err error) *Error {
	e.Err = err
	return e
}

// formatSeconds formats a duration in seconds, such as "60 s" or "0.3 s".
func formatSeconds(d time.Duration) string { return fmt.Sprintf("%g s", d.Seconds()) }

// lastLine returns the last nonblank line of text, cut to 200 bytes.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	line := strings.TrimSpace(lines[len(lines)-1])
	if len(line) > 200 {
		line = line[:200] + "..."
	}
	return line
}
