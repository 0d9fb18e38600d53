package sshtest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// session serves one session channel until its command has ended or its client is gone.
func (s *Server) session(conn *ssh.ServerConn, nc ssh.NewChannel) {
	ch, reqs, err := nc.Accept()
	if err != nil {
		return
	}
	var env []string
	started := false
	for r := range reqs {
		ok := false
		switch r.Type {
		case "env":
			var m struct{ Name, Value string }
			if ok = ssh.Unmarshal(r.Payload, &m) == nil; ok {
				env = append(env, m.Name+"="+m.Value)
			}
		case "exec", "shell":
			var m struct{ Command string }
			ok = !started && (r.Type == "shell" || ssh.Unmarshal(r.Payload, &m) == nil)
			if ok {
				started = true
				r.Reply(true, nil)
				go s.run(conn.User(), ch, m.Command, env) // not waited for: see Close
				continue
			}
		}
		if r.WantReply {
			r.Reply(ok, nil)
		}
	}
	if !started {
		ch.Close()
	}
}

// run runs a command as sshd does: with sh, in a session of its own. When the client is gone, the command notices it
// only by the end of its streams.
func (s *Server) run(user string, ch ssh.Channel, command string, env []string) {
	defer ch.Close()
	io.WriteString(ch, s.opts.Noise)
	cmd := exec.Command("/bin/sh")
	if command != "" {
		cmd.Args = append(cmd.Args, "-c", command)
	}
	cmd.Dir = s.opts.Dir
	cmd.Env = append(append(s.environment(user), env...), s.opts.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		io.WriteString(ch.Stderr(), err.Error()+"\n")
		sendStatus(ch, 127)
		return
	}
	go func() { // ends with the client's input, which ends with the channel
		io.Copy(stdin, ch)
		stdin.Close()
	}()
	err = cmd.Wait()
	ch.CloseWrite()
	if s.opts.NoExitCode {
		return
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		sendStatus(ch, 0)
		return
	}
	if ws := exit.Sys().(syscall.WaitStatus); ws.Signaled() {
		sendSignal(ch, ws.Signal())
		return
	}
	sendStatus(ch, exit.ExitCode())
}

func (s *Server) environment(user string) []string {
	home := s.opts.Dir
	if home == "" {
		home, _ = os.Getwd()
	}
	return []string{
		"HOME=" + home, "USER=" + user, "LOGNAME=" + user, "SHELL=/bin/sh",
		"PATH=" + os.Getenv("PATH"), "SSH_CONNECTION=127.0.0.1 0 " + hostOf(s.ln),
	}
}

func hostOf(ln net.Listener) string {
	if ln == nil {
		return "127.0.0.1 0"
	}
	a := ln.Addr().(*net.TCPAddr)
	return a.IP.String() + " " + strconv.Itoa(a.Port)
}

// sendStatus sends the exit status of a command (RFC 4254 section 6.10).
func sendStatus(ch ssh.Channel, code int) {
	ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(code)}))
}

func sendSignal(ch ssh.Channel, sig syscall.Signal) {
	names := map[syscall.Signal]string{
		syscall.SIGABRT: "ABRT", syscall.SIGALRM: "ALRM", syscall.SIGFPE: "FPE", syscall.SIGHUP: "HUP",
		syscall.SIGILL: "ILL", syscall.SIGINT: "INT", syscall.SIGKILL: "KILL", syscall.SIGPIPE: "PIPE",
		syscall.SIGQUIT: "QUIT", syscall.SIGSEGV: "SEGV", syscall.SIGTERM: "TERM",
		syscall.SIGUSR1: "USR1", syscall.SIGUSR2: "USR2",
	}
	ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
		Signal  string
		Core    bool
		Message string
		Lang    string
	}{names[sig], false, "", ""}))
}

// forward connects a direct-tcpip channel to a TCP address (RFC 4254 section 7.2).
func (s *Server) forward(nc ssh.NewChannel) {
	var m struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(nc.ExtraData(), &m); err != nil {
		nc.Reject(ssh.ConnectionFailed, "bad request")
		return
	}
	dialer := net.Dialer{Timeout: 10 * time.Second}
	c, err := dialer.DialContext(s.ctx, "tcp", net.JoinHostPort(m.Host, strconv.Itoa(int(m.Port))))
	if err != nil {
		nc.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	ch, reqs, err := nc.Accept()
	if err != nil {
		c.Close()
		return
	}
	s.updateStats(func(st *Stats) { st.Forwarded++ })
	go ssh.DiscardRequests(reqs)
	join(s.ctx, ch, c.(*net.TCPConn))
}

// join copies data between a channel and a TCP connection, in both directions, until both have ended.
func join(ctx context.Context, ch ssh.Channel, c *net.TCPConn) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		io.Copy(c, ch)
		c.CloseWrite()
	})
	wg.Go(func() {
		io.Copy(ch, c)
		ch.CloseWrite()
	})
	wg.Wait()
	ch.Close()
	c.Close()
}
