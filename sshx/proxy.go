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

// A proxyConn talks to a server through the stdin and stdout of a command.
type proxyConn struct {
	out    *os.File // what the command writes
	in     *os.File // what it reads
	cmd    *exec.Cmd
	stderr Tail
	close  func() error
	done   chan struct{} // closed when the command has been waited for
}

// startProxy runs a ProxyCommand with sh in a session of its own, so that ^C on
// our terminal does not reach it and everything it starts can be ended.
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
	p.cmd.WaitDelay = time.Second // for a grandchild that keeps stderr
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

// proxyGrace is how long a proxy command may take to end after its input has.
const proxyGrace = 500 * time.Millisecond

// end closes the command's input, which is all that most of them need, and
// sees to it that the others end too.
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

// signal reaches the command's whole process group, as long as its number is
// sure to be the command's.
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

// explainError gives the word to a command that has failed, where the server seemed
// to have closed the connection. ssh as a proxy command tells when the host it
// goes through was busy.
func (p *proxyConn) explainError(t Target, e *DialError) *DialError {
	select {
	case <-p.done:
	case <-time.After(proxyGrace):
		return e
	}
	said := p.stderr.Line()
	switch {
	case p.cmd.ProcessState.Success() && said == "", strings.Contains(said, "kex_exchange_identification"):
		return e
	case said == "":
		said = p.cmd.ProcessState.String()
	}
	return newDialError(t, "connect", KindNoRoute, "ProxyCommand failed: %s", said).withDetails("%s", t.ProxyCommand).withCause(e.Err)
}

var _ net.Conn = (*proxyConn)(nil)

type proxyAddr struct{}

func (proxyAddr) Network() string { return "proxy" }
func (proxyAddr) String() string  { return "proxy command" }
