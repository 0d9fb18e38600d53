/*
Package transport starts helpers on hosts and returns the stdin and stdout of each as one
stream.

	                       .-> Here    Child    this machine: our own binary, over two pipes
	hosts --> Ways --------+
	   a set, each host    '-> There   SSH      our SSH client: one connection, one session, /bin/sh
	   a value                         Command  any program that gives a shell: ssh, kubectl exec -i
	                                   ByStarter  a batch system's own program, a call for each host; helpers may connect to us
	                                   OneStep    the same, one call for all: helpers connect to us
	                                   Nowhere  a command line that goes nowhere else

	Way.Dial(ctx, []Host) <-chan Result     one call for the whole set; each Result as it comes

What a node runs there is /bin/sh and nothing else, which means the same to every
login shell. It is sent one compound command (deliver.sh), and answers:

	mpiexec                                   /bin/sh
	   | script -------------------------------->
	   | <-------------------------------- shell   the login shell has run /bin/sh
	   | <----------------------------- need DIR   no program of this build here
	   | the program, Self.Size bytes ---------->  once per need
	   | <--------------------------- run WHERE   shared, cache, sent or told; or fail
	   |                                          (another machine: once more, machine.go)
	   | <------------------------ first byte of the helper
	   | <===================================>    the helper's own stream

A line of the conversation begins with byte 0x1e, which no login script prints;
what came before is kept as noise. Nothing but what was asked for is sent before
run, so no shell can swallow bytes that are meant for the helper. The helper
speaks first: the host's Result comes when its first byte is there, which is not consumed.
A helper that could not be executed is therefore an error of its host. Only a Child is
returned at once: the kernel has said already that it runs.

The helper is called with two arguments, --helper BUILD, or --helper-child BUILD
as a child of mpiexec. One that is to call us has two more (onestep.go, bystarter.go).

The Stream of a Result is a *Conn. Beside the stream it tells, in methods that an
interface of the caller can name:

	Source() string        child, shared, cache, sent or told; found, if it was one of the two
	Why() string           why the stream ended, after Read or Write failed
	Silence() (duration)   how long the link may be dead; 0: unknown
	LocalAddr() net.Addr   our end of the TCP connection; nil if there is none
	Noise() []byte         what the login shell printed
	Sent() int64           bytes of the program that were sent
	Build() string         identity of the program that was started; empty: ours
	Login() (duration)     until we were logged in; 0: unknown
	Shell() (duration)     from then on until /bin/sh answered
	Stderr() string        the last that the far end wrote to stderr

Every error of a Result has Error(), Reason() (the same for hosts that fail alike) and
Hint(). It is an *Error, or from the SSH client an *sshx.DialError. Two have text alone: that of
Nowhere, and a *Crash.

The package does not know what the stream carries.
*/
package transport

import (
	"bufio"
	"cmp"
	"io"
	"net"
	"time"
)

// What the user has not said (cli.md section 2).
const (
	defaultTimeout = 10 * time.Second
	defaultShell   = 60 * time.Second
)

// loginTimeout is how long a login may take.
func loginTimeout(given time.Duration) time.Duration { return cmp.Or(max(given, 0), defaultTimeout) }

// shellTimeout is how long each step from the login on may take.
func shellTimeout(given time.Duration) time.Duration { return cmp.Or(max(given, 0), defaultShell) }

// A helperLink is what a dialer has made: the stdin and stdout of a process out there.
type helperLink interface {
	io.ReadWriteCloser
	// ended waits for the end, but not longer than limit, and tells how it was.
	ended(limit time.Duration) linkEnd
	stderr() string
	verdict(exit int) Verdict // what the exit code and the last words mean
	localAddr() net.Addr
	silence() time.Duration
}

// A linkEnd is how the process at the other end of a link ended.
type linkEnd struct {
	exit int    // exit code; -1 if there is none, or the process lives
	why  string // in words; empty if the process lives
	err  error  // an error of the connection that Dial should return as it is
}

// A Conn is the stdin and stdout of a running helper. One goroutine may read
// while another writes.
type Conn struct {
	link   helperLink
	in     *bufio.Reader
	source string
	noise  []byte
	sent   int64
	login  time.Duration
	shell  time.Duration
	build  string
}

var _ io.ReadWriteCloser = (*Conn)(nil)

func newConn(l helperLink) *Conn { return &Conn{link: l, in: bufio.NewReaderSize(l, 4096)} }

// Read reads what the helper writes to stdout.
func (c *Conn) Read(p []byte) (int, error) { return c.in.Read(p) }

// Write writes to the helper's stdin.
func (c *Conn) Write(p []byte) (int, error) { return c.link.Write(p) }

// Close ends the connection or the process. It returns within a second.
func (c *Conn) Close() error { return c.link.Close() }

// Source is from where the node has the program: shared, cache or sent, told if the user has
// named the place, found if it was there and nobody knows where, or child if it is a child of ours.
func (c *Conn) Source() string { return c.source }

// Noise is what the login shell printed before it ran what it was told to.
func (c *Conn) Noise() []byte { return c.noise }

// Sent is how many bytes of the program were sent.
func (c *Conn) Sent() int64 { return c.sent }

// Build is the identity of the program that was started: another one than ours on a node
// of another kind. It is empty if we started it as our child.
func (c *Conn) Build() string { return c.build }

// Login is how long it took until we were logged in, with all that was tried; 0 if that
// is another program's business.
func (c *Conn) Login() time.Duration { return c.login }

// Shell is how long it took from the login until /bin/sh answered; with the login where that is another program's business.
func (c *Conn) Shell() time.Duration { return c.shell }

// Stderr is the end of what the far side wrote to stderr, 4 KiB at most.
func (c *Conn) Stderr() string { return c.link.stderr() }

// LocalAddr is our address in the TCP connection, or nil.
func (c *Conn) LocalAddr() net.Addr { return c.link.localAddr() }

// Silence is how long the link may be dead until it is given up; 0 if that is another
// program's business.
func (c *Conn) Silence() time.Duration { return c.link.silence() }

// whyTimeout is how long Why waits for an exit code after the stream has ended. The keeper of a killed helper gives what that has
// left a second to end (helper.reaperGrace), and then tells how it ended.
const whyTimeout = 2 * time.Second

// Why says why the stream ended. Call it after Read or Write has failed; it waits a
// moment for the exit code. Empty: the helper has ended its output and lives.
func (c *Conn) Why() string { return c.link.ended(whyTimeout).why }
