/*
Package transport starts helpers on hosts and returns the stdin and stdout of each helper as one stream.

	                       .-> Local   LocalChild   this machine: this binary, over two pipes
	hosts --> Transports --+
	                       '-> Remote  SSH          the built-in SSH client: one connection, one session, /bin/sh
	                                   Command      any program that gives a shell: ssh, kubectl exec -i
	                                   ByStarter    a batch system's starter, one call for each host; helpers may connect to mpiexec
	                                   OneStep      the same, one call for all hosts: helpers connect to mpiexec
	                                   Unreachable  no transport: an error for each other host

	Transport.Dial(ctx, []Host) <-chan Result     one call for the whole set; sends each Result when it is known

On a remote node the transport runs only /bin/sh, because every login shell can start that. It sends the
shell one compound command (deliver.sh), which replies:

	mpiexec                                   /bin/sh
	   | script -------------------------------->
	   | <-------------------------------- shell   the login shell has run /bin/sh
	   | <----------------------------- need DIR   no program of this build here
	   | the binary, HelperBinary.Size bytes --->  once for each need
	   | <--------------------------- run WHERE   shared, cache, sent or told; or fail
	   |                                          on another architecture, all this once more (machine.go)
	   | <------------------------ first byte of the helper
	   | <===================================>    the helper's own stream

Each line of this protocol begins with byte 0x1e, which no login script prints. Text before such a line is kept as
noise. Before "run", mpiexec sends only requested bytes, so that no shell can consume bytes for the helper. The helper
sends first. The Result of a host is sent when the helper's first byte has arrived. The transport does not consume this
byte. So a helper that cannot be executed is an error of its host. Only a LocalChild does not wait for that byte,
because the kernel has already confirmed that the helper runs.

The helper has two arguments: --helper BUILD, or --helper-child BUILD as a child of mpiexec. A helper that should
connect to mpiexec has two more arguments (batchstep.go, batch.go).

The Stream of a Result is a *Conn. Callers use the other methods of a Conn through interfaces of their own:

	Source() string        child, shared, cache, sent or told; found, if it was shared or cache
	Why() string           why the stream ended, after Read or Write failed
	Silence() (duration)   how long the link may be silent; 0 if unknown
	LocalAddr() net.Addr   local address of the TCP connection; nil if there is none
	Noise() []byte         text that the login shell printed
	Sent() int64           bytes of the binary that were sent
	Build() string         identity of the binary that was started; empty if it is this one
	Login() (duration)     time until the login was complete; 0 if unknown
	Shell() (duration)     time from then until /bin/sh replied
	Stderr() string        the last 4 KiB of stderr

Every error of a Result has the methods Error, Reason (which is equal for hosts with the same failure) and Hint. It is
an *Error or, from the SSH client, an *sshx.DialError. Two errors have only the method Error: the error of Unreachable,
and *PanicError.

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

// These are the default time limits for the login and for each later step (cli.md section 2).
const (
	defaultTimeout = 10 * time.Second
	defaultShell   = 60 * time.Second
)

// loginTimeout returns how long a login may take. It returns configured, or a default if configured is 0 or less.
func loginTimeout(configured time.Duration) time.Duration {
	return cmp.Or(max(configured, 0), defaultTimeout)
}

// shellTimeout returns how long each step after the login may take. It returns configured, or a default if
// configured is 0 or less.
func shellTimeout(configured time.Duration) time.Duration {
	return cmp.Or(max(configured, 0), defaultShell)
}

// A helperLink connects mpiexec to the stdin and stdout of a process that a transport has started on a host.
type helperLink interface {
	io.ReadWriteCloser
	// ended waits for the process to end, at most for limit, and returns how it ended.
	ended(limit time.Duration) linkEnd
	stderr() string
	verdict(exit int) Verdict // what the exit code and stderr mean
	localAddr() net.Addr
	silence() time.Duration
}

// A linkEnd says how the process at the other end of a helperLink has ended.
type linkEnd struct {
	exit int    // exit code; -1 if there is none, or the process still runs
	why  string // text for the user; empty if the process still runs
	err  error  // error of the connection, which Dial returns unchanged; else nil
}

// A Conn is the stream to a running helper. Reads come from the helper's stdout, and writes go to its stdin. One
// goroutine may read while another writes.
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

// Read reads the helper's stdout.
func (c *Conn) Read(p []byte) (int, error) { return c.in.Read(p) }

// Write writes to the helper's stdin.
func (c *Conn) Write(p []byte) (int, error) { return c.link.Write(p) }

// Close ends the connection to the helper, or the program on this machine (such as ssh) through which the connection
// runs. It returns within a second.
func (c *Conn) Close() error { return c.link.Close() }

// Source returns where the node got the helper's binary. "shared" is a shared file system, "cache" is the cache
// on the node, and "sent" means that mpiexec has sent the binary. "told" is a path that the user has given.
// "found" means that the node already had the binary, at an unknown place. "child" is this machine.
func (c *Conn) Source() string { return c.source }

// Noise returns the text that the login shell printed before it ran /bin/sh.
func (c *Conn) Noise() []byte { return c.noise }

// Sent returns how many bytes of the binary were sent.
func (c *Conn) Sent() int64 { return c.sent }

// Build returns the identity of the binary that was started. On a node of another architecture, this is not the
// identity of this process's binary. The result is empty for a child of this process.
func (c *Conn) Build() string { return c.build }

// Login returns how long the login took, including all retries. It returns 0 if another program, such as ssh, does
// the login.
func (c *Conn) Login() time.Duration { return c.login }

// Shell returns the time from the end of the login until /bin/sh replied. If another program logs in, the result
// includes the login.
func (c *Conn) Shell() time.Duration { return c.shell }

// Stderr returns the last 4 KiB that the remote side has written to stderr.
func (c *Conn) Stderr() string { return c.link.stderr() }

// LocalAddr returns the local address of the TCP connection, or nil if it is unknown.
func (c *Conn) LocalAddr() net.Addr { return c.link.localAddr() }

// Silence returns how long the link may be silent before it counts as lost. It returns 0 if another program, such
// as ssh, decides when the link is lost.
func (c *Conn) Silence() time.Duration { return c.link.silence() }

// whyTimeout is the maximum time for which Why waits for an exit code after the stream has ended. It must be longer
// than helper.reaperGrace, because the reaper of a killed helper reports the exit code only after that grace period.
const whyTimeout = 2 * time.Second

// Why returns why the stream ended. It may be called after Read or Write has failed, and may wait for the
// exit code. It returns "" if the helper has closed its output but still runs.
func (c *Conn) Why() string { return c.link.ended(whyTimeout).why }
