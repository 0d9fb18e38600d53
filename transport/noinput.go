package transport

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"remshell/sshx"
)

/*
This file starts helpers by a starter that passes no input to its program and no output back, such as PBS's
(rule RM-38). The delivery script is an argument of the shell. It says nothing, and ends with a code if no helper
can be started. It has the join token, which is not secret:

	mpiexec                         starter             /bin/sh -c SCRIPT on the host
	   | ---------------------------- | --------------------- |
	   |                              | <-- exit code --------|   there is no program of this build
	   | <== TLS, proof by the token and the job's secret ====== helper
*/

// silentCodes maps the word after "fail" in a line of the delivery script to an exit code. The script ends with this
// exit code if it cannot send text to mpiexec.
var silentCodes = map[string]int{"machine": 101, "told": 102, "never": 103, "space": 104}

// silentSay returns a shell function that replaces the delivery script's function for printing lines of the
// protocol. The new function prints nothing. For a failure, it ends the shell with an exit code.
func silentSay() string {
	var cases strings.Builder
	for _, word := range []string{"machine", "told", "never", "space"} {
		fmt.Fprintf(&cases, " 'fail %s') exit %d ;;", word, silentCodes[word])
	}
	return `case "$1 ${2-}" in` + cases.String() + " esac"
}

// silentScript returns the arguments that make /bin/sh on a host start the helper without printing anything. The script
// contains the token and passes it to the helper's standard input.
func (s HelperBinary) silentScript(host, token string) []string {
	s.silent, s.delivery = true, "never"
	s.silentArgs = quote(host) + " '' <<'_RS_TOKEN'\n" + token + "_RS_TOKEN"
	return []string{"-c", "exec >/dev/null\n" + s.deliveryScript(newFileTag())}
}

// dialWithoutInput runs a starter that passes no input to the host, and returns the connection that the
// helper makes.
func (s *ByStarter) dialWithoutInput(ctx context.Context, host Host, c *dialBackListener) (io.ReadWriteCloser, error) {
	call, err := s.starterCall(host)
	if err != nil {
		return nil, err
	}
	failed := func(step string, kind Kind, why, remedy string) *Error {
		return &Error{Host: host.Name, Step: step, Kind: kind, Why: why, Remedy: remedy}
	}
	back := c.dialBackOf(call.Host)
	if back == nil {
		why := "this host already has a helper under another name"
		if c.listenErr != nil {
			why = fmt.Sprintf("the helper cannot connect to this host: %v", c.listenErr)
		}
		return nil, failed("start", KindOther, why, "give open ports with --port-range LOW:HIGH, or use -launcher ssh").withCause(c.listenErr)
	}
	defer back.stopExpecting()
	pass, err := s.Pacer.Acquire(ctx, sshx.UnknownServer)
	if err != nil {
		return nil, failed("connect", KindCanceled, fmt.Sprintf("cancelled: %v", err), "").withCause(err)
	}
	defer pass.Release(sshx.LoggedIn, nil)
	argv := slices.Concat(s.System.Starter.Argv(call), s.Self.AtPath(host.Helper).silentScript(call.Host, c.joinToken))
	s.Log.Debug().Str("host", host.Name).Strs("argv", argv[:len(argv)-1]).Msg("starting")
	defer s.Self.tracer.begin(host.Name, "helper")(nil)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = s.System.Starter.Environ(s.Env)
	connected := false
	p, err := startProcess(cmd, func(p *localCommand) { s.endProgram(p, connected) }, endLeftovers)
	if err != nil {
		return nil, failed("start", KindOther, fmt.Sprintf("%s cannot be started: %v", argv[0], innermost(err)), "use -launcher ssh").withCause(err)
	}
	p.interpret = stderrReader{s.verdict, s.why}
	go io.Copy(io.Discard, p)
	times := programTimeouts(s.Timeout, s.Shell)
	timer := time.NewTimer(times.shell + times.others)
	defer timer.Stop()
	select {
	case stream := <-back.stream:
		connected = true
		conn := newConn(back.newLink(stream, p))
		conn.build, conn.source = s.Self.Build, "found"
		return conn, nil
	case <-p.done:
		err = s.silentError(host, c, p)
	case <-timer.C:
		err = failed("helper", KindNoRoute, fmt.Sprintf("the helper did not connect to this host on port %d within %s", c.listener.Port(), formatSeconds(times.shell+times.others)), "give open ports with --port-range LOW:HIGH, or use -launcher ssh")
	case <-ctx.Done():
		err = failed("connect", KindCanceled, fmt.Sprintf("cancelled: %v", context.Cause(ctx)), "").withCause(context.Cause(ctx))
	}
	p.Close()
	return nil, err
}

// silentError returns the error for a starter that ended before the helper had connected.
func (s *ByStarter) silentError(host Host, c *dialBackListener, p *localCommand) *Error {
	program := s.System.Starter.Program
	exit := p.ended(programEndTime).exit
	e := &Error{Host: host.Name, Step: "deliver", Kind: KindMissing, Raw: p.stderr()}
	switch exit {
	case silentCodes["machine"]:
		goos, goarch := s.Self.targetSystem()
		e.Kind, e.Why, e.Remedy = KindMachine, fmt.Sprintf("the node cannot run this mpiexec, which is built for %s %s", goos, goarch), "start the job from a host of the same kind"
	case silentCodes["told"]:
		e.Why, e.Remedy = host.Helper+": there is no such file, it cannot be executed, or "+otherBuild, "correct the path, or remove it from the host file"
	case silentCodes["never"]:
		e.Why = fmt.Sprintf("mpiexec is not on the node, and %s cannot copy it", program)
		e.Remedy = "install mpiexec on a path that all hosts share, give its path on the node with path= in a host file, or use -launcher ssh"
	case silentCodes["space"]:
		e.Step, e.Kind = "start", KindOther
		e.Why, e.Remedy = fmt.Sprintf("the address space of processes on the node is limited, but the helper needs %d MB", minAddressSpace>>10), "raise ulimit -v on the node, or request more memory from the batch system"
	default:
		v := p.verdict(exit)
		e.Step, e.Kind, e.Why, e.Remedy = v.Step, v.Kind, v.Why, v.Hint
		if p.stderr() == "" {
			e.Why = fmt.Sprintf("the helper ended before it connected to this host on port %d; the reason may be in the standard error of the batch job", c.listener.Port())
			e.Remedy = "give open ports with --port-range LOW:HIGH, or use -launcher ssh"
		}
	}
	return e
}
