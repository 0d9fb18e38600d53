package sshx

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A proxyConn is a connection through the stdin and stdout of a proxy command (ProxyCommand).
type proxyConn struct {
	out    *os.File // the command's stdout
	in     *os.File // the command's stdin
	cmd    *exec.Cmd
	stderr Tail
	close  func() error
	done   chan struct{} // closed after the command was waited for
}

// startProxy runs a proxy command with sh, in a session of its own. For that reason ^C on the terminal does
// not reach the command, and all its processes can be killed together.
func startProxy(command string) (*proxyConn, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		inR.Close()
		inW.Close()
		return nil, err
	}
	p := &proxyConn{out: outR, in: inW, done: make(chan struct{})}
	p.cmd = exec.Command("/bin/sh", "-c", "exec "+command)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = inR, outW, &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.cmd.WaitDelay = time.Second // a grandchild may keep stderr open
	err = p.cmd.Start()
	inR.Close()
	outW.Close()
	if err != nil {
		inW.Close()
		outR.Close()
		return nil, err
	}
	p.close = sync.OnceValue(p.end)
	go func() {
		p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// proxyGrace is how long a proxy command may continue to run after its input was closed.
const proxyGrace = 500 * time.Millisecond

// end closes the command's input, which ends most commands. If the command has not ended after
// proxyGrace, end kills it.
func (p *proxyConn) end() error {
	p.in.Close()
	p.out.Close()
	p.signal(syscall.SIGTERM)
	go func() {
		select {
		case <-p.done:
		case <-time.After(proxyGrace):
			p.signal(syscall.SIGKILL)
			<-p.done
		}
	}()
	return nil
}

// signal sends a signal to the command's process group. Once the command has been reaped, signal does nothing, because
// the command's PID may have been reused.
func (p *proxyConn) signal(s syscall.Signal) {
	select {
	case <-p.done:
	default:
		syscall.Kill(-p.cmd.Process.Pid, s)
	}
}

func (p *proxyConn) Close() error                       { return p.close() }
func (p *proxyConn) Read(b []byte) (int, error)         { return p.out.Read(b) }
func (p *proxyConn) Write(b []byte) (int, error)        { return p.in.Write(b) }
func (p *proxyConn) LocalAddr() net.Addr                { return proxyAddr{} }
func (p *proxyConn) RemoteAddr() net.Addr               { return proxyAddr{} }
func (p *proxyConn) SetReadDeadline(t time.Time) error  { return p.out.SetReadDeadline(t) }
func (p *proxyConn) SetWriteDeadline(t time.Time) error { return p.in.SetWriteDeadline(t) }
func (p *proxyConn) SetDeadline(t time.Time) error {
	return errors.Join(p.SetReadDeadline(t), p.SetWriteDeadline(t))
}

// explainError returns the error of the proxy command itself if the command has failed, and e otherwise. In the first
// case, e would only say that the connection was closed. If the proxy command is ssh, its error can say that the jump
// host is busy.
func (p *proxyConn) explainError(t Target, e *DialError) *DialError {
	select {
	case <-p.done:
	case <-time.After(proxyGrace):
		return e
	}
	reason := p.stderr.Line()
	switch {
	case p.cmd.ProcessState.Success() && reason == "", strings.Contains(reason, "kex_exchange_identification"):
		return e
	case reason == "":
		reason = p.cmd.ProcessState.String()
	}
	return newDialError(t, "connect", KindNoRoute, "ProxyCommand failed: %s", reason).withDetails("%s", t.ProxyCommand).withCause(e.Err)
}

var _ net.Conn = (*proxyConn)(nil)

type proxyAddr struct{}

func (proxyAddr) Network() string { return "proxy" }
func (proxyAddr) String() string  { return "proxy command" }
