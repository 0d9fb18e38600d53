package reach

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
	marker   = "\x1eremshell " // begins each line of the far end
	maxNoise = 1 << 20         // of a login shell, before the first line
	maxLine  = 8 << 10
	maxNeeds = 4 // folders that are tried (script.go)

	// maxUnderWay is how much of the program may be on its way when all of it has been written: an SSH channel
	// holds 2 MiB (OpenSSH, CHAN_SES_WINDOW_DEFAULT), and the sockets have buffers.
	maxUnderWay = 4 << 20
)

// errChatter is what a far end that talks without end is told by.
var errChatter = errors.New("too much text before /bin/sh answered; the login shell prints it")

// errLate is the cause of a context that ended because a step took too long.
var errLate = errors.New("no answer in time")

// stepTimes are how long the steps of a delivery may take.
type stepTimes struct {
	shell time.Duration // until /bin/sh has answered
	rest  time.Duration // each step after that; the delivery has the time for its bytes as well

	// What waits if there is no answer in the first step. Empty: perhaps nothing, since nobody knows whether the host was reached.
	suspect string
}

// programTimes are those of a program that logs in, and does not tell when it has.
func programTimes(login, shell time.Duration) stepTimes {
	return stepTimes{shell: loginTime(login) + shellTime(shell), rest: shellTime(shell)}
}

// deliver holds the conversation at the top of this package over l, until the
// helper has spoken. On failure l is closed. The first step, that of the shell, has begun with limit.
func (s Self) deliver(limit *deadline.Deadline, host string, l link, times stepTimes) (*Conn, error) {
	defer limit.Stop()
	ctx := limit.Context()
	said := make(chan string, 1) // on standard error before l was closed: a shell may complain of that
	unhook := context.AfterFunc(ctx, func() {
		said <- l.stderr()
		l.Close()
	})
	d := &delivery{self: s, host: host, Conn: newConn(l), limit: limit, times: times}
	d.build = s.Build
	d.step("shell")
	err := d.converse()
	switch inTime := unhook(); {
	case !inTime:
		err = d.givenUp(context.Cause(ctx), lastLine(<-said))
	case err == nil:
		d.ended(nil)
		return d.Conn, nil
	}
	d.ended(err)
	d.Conn.Close()
	return nil, err
}

// A delivery is one conversation.
type delivery struct {
	*Conn
	self    Self
	host    string
	limit   *deadline.Deadline
	times   stepTimes
	stuck   error         // an error of a write, which may have its reason in what is still to be read
	heard   bool          // /bin/sh has spoken
	sending bool          // the program was asked for
	arrival time.Duration // how long the host may take to say that it has the program; 0: not all of it is sent
	ended   func(error)   // of the step that is under way; nil: none is
}

// next begins a step that has a time of its own.
func (d *delivery) next(name string) {
	d.limit.Next(d.times.rest)
	d.step(name)
}

// step tells the watch of the way that a step has begun, and that the one before it has ended well.
func (d *delivery) step(name string) {
	if d.ended != nil {
		d.ended(nil)
	}
	d.ended = d.self.watch.begin(d.host, name)
}

// sources are where a node may have the program from.
var sources = []string{"shared", "cache", "sent", "told"}

func (d *delivery) converse() error {
	if _, err := io.WriteString(d.link, d.self.script(newTag())); err != nil {
		d.stuck = err
	}
	for needs := 0; ; {
		verb, text, err := d.line()
		if err != nil {
			return d.broken(err)
		}
		switch {
		case verb == "shell":
		case verb == "need":
			if needs++; needs > maxNeeds {
				return d.fail("deliver", KindOther, "the node asks for the program again and again")
			}
			d.sending, d.arrival = true, 0
			d.next("delivery")
			if d.self.invited != nil {
				d.self.invited.sends(d.self.Size)
			}
			if err := d.send(); err != nil {
				return err
			}
		case verb == "apart" && d.self.attach != nil: // else nobody asked, or it has been said
			d.self.attach.apart(d.host, text)
			d.self.attach = nil
		case verb == "run" && slices.Contains(sources, text):
			d.source = text
			d.next("helper")
			if d.self.invited != nil {
				return d.awaitCall()
			}
			return d.awaitHelper()
		case verb == "fail":
			if again, err := d.instead(text); !again {
				return err
			}
		default:
			d.noise = append(d.noise, marker+verb+" "+text+"\n"...)
		}
	}
}

// instead lets a node of another kind look for the program that is for it. Once: what it
// says then is its last word.
func (d *delivery) instead(line string) (again bool, err error) {
	code, uname, _ := strings.Cut(line, " ")
	if code != "machine" || d.self.goos != "" {
		return false, d.refused(line)
	}
	other, err := d.self.For(uname)
	if err != nil {
		e := d.refused(line).(*Error)
		var none *noOtherError
		if errors.As(err, &none) {
			e.Why += fmt.Sprintf(", and there is no %s", none.files[0])
			e.Remedy = "install the archive that has it, or put mpiexec for such nodes there"
		} else if d.self.Path != "" {
			e.Why += ": " + err.Error()
		}
		return false, e.because(err)
	}
	d.self, d.build = other, other.Build
	if _, err := io.WriteString(d.link, d.self.script(newTag())); err != nil {
		d.stuck = err
	}
	return true, nil
}

// line reads the next line of the far end; what comes before it is noise.
func (d *delivery) line() (verb, text string, err error) {
	for {
		noise, err := d.until(marker[0], maxNoise)
		d.noise = append(d.noise, noise...)
		if err != nil {
			return "", "", err
		}
		if len(d.noise) > maxNoise {
			return "", "", errChatter
		}
		line, err := d.until('\n', maxLine)
		if err != nil {
			d.noise = append(d.noise, line...)
			return "", "", err
		}
		if rest, ok := strings.CutPrefix(marker[:1]+string(line), marker); ok {
			if !d.heard { // what it says more does not give it more time
				d.heard, d.shell = true, d.times.shell-d.limit.Left()
				d.limit.Next(d.times.rest)
			}
			verb, text, _ = strings.Cut(rest, " ")
			return verb, text, nil
		}
		d.noise = append(append(d.noise, marker[0]), line...)
		d.noise = append(d.noise, '\n')
	}
}

// until reads up to a byte, which is taken but not returned, or limit bytes.
func (d *delivery) until(end byte, limit int) ([]byte, error) {
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
	return got, errChatter
}

// send sends the program. That the far side takes no more is not an error yet: it
// may have said why.
func (d *delivery) send() error {
	if d.stuck != nil {
		return nil
	}
	program, err := d.self.Open()
	if err != nil {
		return d.fail("deliver", KindOther, "read own program: %v", err)
	}
	defer program.Close()
	chunk := make([]byte, 64<<10)
	for left := d.self.Size; left > 0; {
		n, err := io.ReadFull(program, chunk[:min(int64(len(chunk)), left)])
		if err != nil {
			return d.fail("deliver", KindOther, "read own program: %v", err)
		}
		n, err = d.link.Write(chunk[:n])
		left -= int64(n)
		d.sent += int64(n)
		d.limit.Took(n)
		if err != nil {
			d.stuck = err
			return nil
		}
	}
	d.arrival = d.times.rest + deadline.TimeFor(int(min(d.self.Size, maxUnderWay)))
	d.limit.Next(d.arrival)
	return nil
}

// awaitHelper waits for the first byte of the helper and leaves it to be read.
func (d *delivery) awaitHelper() error {
	if _, err := d.in.Peek(1); err != nil {
		return d.broken(err)
	}
	return nil
}

// awaitCall invites the helper to call us, and takes its call for the stream; or, where it cannot call, stays with
// the one that there is.
func (d *delivery) awaitCall() error {
	if _, err := io.WriteString(d.link, d.self.invited.from.invitation); err != nil {
		d.stuck = err
	}
	stays := make(chan stay, 1)
	go func(in *bufio.Reader) { stays <- readStay(in) }(d.in) // of one that calls: all that it says until its end
	select {
	case conn := <-d.self.invited.arrival:
		called := newConn(d.self.invited.link(conn, d.self.invited.by))
		called.source, called.noise, called.sent, called.build = d.source, d.noise, d.sent, d.build
		d.Conn = called
		return nil
	case s := <-stays:
		if s.err != nil {
			return d.broken(s.err)
		}
		d.self.invited.stays(s.why)
		return d.awaitHelper()
	}
}

// A stay is what a helper says that cannot call us: why; or that its stream has ended before it said so.
type stay struct {
	why string
	err error
}

// stayVerb begins it.
const stayVerb = "stay "

// SayStays is how a helper says that it cannot call, and why, before it speaks over the stream that it was invited by.
func SayStays(out io.Writer, why error) { fmt.Fprintf(out, "%s%s%s\n", marker, stayVerb, why) }

// readStay reads that, and not a byte more. Whatever else is said it drops, until the end.
func readStay(in *bufio.Reader) stay {
	for whole := true; ; {
		line, err := in.ReadSlice('\n')
		why, ours := strings.CutPrefix(string(line), marker+stayVerb)
		switch {
		case err == nil && ours && whole:
			return stay{why: strings.TrimRight(why, "\r\n")}
		case err != nil && err != bufio.ErrBufferFull:
			return stay{err: err}
		}
		whole = err == nil
	}
}

// refused is the error for a fail line: a code, and text.
func (d *delivery) refused(line string) error {
	code, text, _ := strings.Cut(line, " ")
	switch {
	case code == "machine":
		goos, goarch := d.self.system()
		e := d.fail("deliver", KindMachine, "the node is %s, this mpiexec is for %s %s", text, goos, goarch)
		e.Remedy = "start from a host of the same kind"
		return e
	case code == "told":
		e := d.fail("deliver", KindMissing, "%s: %s", d.self.told, text)
		e.Remedy = "correct the path, or take it out of the host file: mpiexec sends itself"
		return e
	case code == "never":
		e := d.fail("deliver", KindMissing, "mpiexec is not on the node, and nothing is sent (--ship-helper never)")
		e.Remedy = "send it with --ship-helper, or name its path there with path= in a host file"
		return e
	case code == "space":
		kib, _ := strconv.Atoi(text)
		e := d.fail("start", KindOther, "address space is limited to %d MB, the helper needs %d MB", kib>>10, addressSpace>>10)
		e.Remedy = "raise ulimit -v there, or ask the batch system for more (" + batch.MemoryOptions() + ")"
		return e
	case code == "store" && strings.Contains(text, "noexec"):
		e := d.fail("deliver", KindNoexec, "no folder of the node lets a program be executed: %s", text)
		e.Remedy = "set XDG_CACHE_HOME there to one that does, or install mpiexec under the same path"
		return e
	case code == "store":
		e := d.fail("deliver", KindStore, "no folder of the node takes the program: %s", text)
		e.Remedy = "make room there, or install mpiexec under the same path"
		return e
	}
	return d.fail("deliver", KindOther, "%s", line)
}

// endingTime is how long a program whose stream has ended is given to end, and so to say why: on a busy
// machine more than a second passes between the last close and the exit of an ssh.
const endingTime = 10 * time.Second

// broken is the error of a link that ended before the helper spoke.
func (d *delivery) broken(err error) error {
	if err == errChatter {
		return d.fail("session", KindSession, "%v", err)
	}
	end := d.link.ended(endingTime)
	if end.err != nil {
		return end.err
	}
	if d.source != "" {
		e := d.fail("helper", KindHelper, "the helper ended at once: %s", end.why)
		if v := d.link.verdict(end.exit); v.Kind == KindNoexec || v.Kind == KindMissing {
			e.Kind, e.Why, e.Remedy = v.Kind, v.Why, v.Hint
			if v.Kind == KindMissing {
				e.Remedy = "send it anew with --ship-helper, or name its path there with path= in a host file"
			}
		} else if d.source == "cache" {
			// A file that was damaged after its delivery would fail at every start.
			e.Remedy = "if it does so again, its copy there may be damaged: send it anew with --ship-helper"
		}
		return e.because(err)
	}
	v := d.link.verdict(end.exit)
	e := d.fail(v.Step, v.Kind, "%s", v.Why).because(err)
	e.At, e.Remedy = v.Said, strings.ReplaceAll(v.Hint, "HOST", d.host)
	if len(d.noise) > 0 && (v.Kind == KindOther || v.Kind == KindSession) {
		e.Why += fmt.Sprintf("; it printed %q", lastLine(string(d.noise)))
	}
	return e
}

// givenUp is the error when a context ended the conversation; said is the last line on standard error until then.
func (d *delivery) givenUp(cause error, said string) *Error {
	late := func(step string, kind Kind, remedy, why string, args ...any) *Error {
		e := d.fail(step, kind, why, args...).because(cause)
		e.At, e.Remedy = said, remedy
		return e
	}
	switch {
	case !errors.Is(cause, errLate) && !errors.Is(cause, context.DeadlineExceeded):
		return late("connect", KindCanceled, "", "given up: %v", cause)
	case d.source != "":
		return late("helper", KindReach, "", "the helper did not answer in %s", seconds(d.times.rest))
	case d.arrival > 0:
		return late("deliver", KindReach, "does a file system hang there? try: ssh "+d.host+" ls -la .cache; or raise --shell-timeout",
			"our program was sent, and /bin/sh did not run it in %s", seconds(d.arrival))
	case d.sending:
		return late("deliver", KindReach, "install mpiexec there, and name its path with path= in a host file; or raise --shell-timeout",
			"it takes our program at less than %d KB/s", deadline.Rate/1000)
	case d.heard:
		return late("deliver", KindReach, "does a file system hang there? try: ssh "+d.host+" ls -la .cache; or raise --shell-timeout",
			"/bin/sh did not find in %s whether our program is there", seconds(d.times.rest))
	case d.times.suspect == "" && len(d.noise) == 0:
		return late("connect", KindReach, "", "cannot reach: no answer in %s", seconds(d.times.shell))
	}
	// The login shell waits for something in a start-up file, or that runs another program for ever.
	e := late("shell", KindShell, fmt.Sprintf("see what %s does there: ssh %s true; or raise --shell-timeout", StartupFile(d.self.login), d.host),
		"%s did not run /bin/sh in %s; it printed ", cmp.Or(d.times.suspect, "the login shell"), seconds(d.times.shell))
	switch noise := lastLine(string(d.noise)); {
	case noise != "":
		e.Why += strconv.Quote(noise)
	case said != "":
		e.Why += strconv.Quote(said)
		e.At = "" // it is told
	default:
		e.Why += "nothing"
	}
	return e
}

func (d *delivery) fail(step string, kind Kind, why string, args ...any) *Error {
	return &Error{Host: d.host, Step: step, Kind: kind, Why: fmt.Sprintf(why, args...), Raw: d.link.stderr()}
}

func (e *Error) because(err error) *Error {
	e.Err = err
	return e
}

// seconds writes 60 s or 0.3 s.
func seconds(d time.Duration) string { return fmt.Sprintf("%g s", d.Seconds()) }

// lastLine is the last line that says something, shortened.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	line := strings.TrimSpace(lines[len(lines)-1])
	if len(line) > 200 {
		line = line[:200] + "..."
	}
	return line
}
