//go:build linux

package cli

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"remshell/wire"
)

// writeSlowly writes text again and again, one byte at a time, until a write fails.
func writeSlowly(w io.Writer, text string) {
	for i := 0; ; i++ {
		if _, err := io.WriteString(w, text[i%len(text):][:1]); err != nil {
			return
		}
		<-time.After(50 * time.Millisecond)
	}
}

// slowServers send one byte now and then, for ever, each in another step of the connection.
var slowServers = []struct {
	name  string
	serve func(*fakeServer, net.Conn)
	says  string // what mpiexec says
}{
	{"before the identification", func(_ *fakeServer, c net.Conn) { writeSlowly(c, "wait\r\n") },
		"n1: handshake: the key exchange did not finish in 2 s"},
	{"in the key exchange", func(_ *fakeServer, c net.Conn) {
		exchangeVersions(c, "SSH-2.0-x")
		writeSlowly(c, "\x00\x00\x00\x0c\x0a\x02aaaaaaaaaa")
	},
		"n1: handshake: the key exchange did not finish in 2 s"},
	{"instead of an answer to exec", func(p *fakeServer, c net.Conn) {
		p.acceptLogin(c, true, func(nc ssh.NewChannel) {
			if ch, _, err := nc.Accept(); err == nil {
				writeSlowly(ch, "x")
			}
		})
	}, "n1: session: the server did not start a session within 5 s"},
	{"output of the login shell", func(p *fakeServer, c net.Conn) {
		p.acceptLogin(c, true, serveCommand(func(ch ssh.Channel) { writeSlowly(ch, "loading conda ") }))
	}, `n1: shell: the login shell did not run /bin/sh within 5 s; it printed "l`},
	{"errors of the login shell", func(p *fakeServer, c net.Conn) {
		p.acceptLogin(c, true, serveCommand(func(ch ssh.Channel) { writeSlowly(ch.Stderr(), "loading conda ") }))
	}, `n1: shell: the login shell did not run /bin/sh within 5 s; it printed "l`},
	{"lines of the delivery", func(p *fakeServer, c net.Conn) {
		p.acceptLogin(c, true, serveCommand(func(ch ssh.Channel) { writeSlowly(ch, "\x1eremshell shell\n") }))
	}, "n1: deliver: /bin/sh did not report within 5 s whether mpiexec is there"},
	{"while the program is sent", func(p *fakeServer, c net.Conn) {
		p.acceptLogin(c, true, serveCommand(func(ch ssh.Channel) {
			io.WriteString(ch, "\x1eremshell need /tmp\n")
			writeSlowly(ch, "x")
		}))
	}, "n1: deliver: the copy of mpiexec arrives at less than 10 KB/s"},
	{"greeting of the helper", func(p *fakeServer, c net.Conn) {
		p.acceptLogin(c, true, serveCommand(func(ch ssh.Channel) {
			io.WriteString(ch, "\x1eremshell run cache\n")
			writeSlowly(ch, "noise of a helper\n")
		}))
	}, "n1: mpiexec on the host was started, but did not answer within 5 s"},
	{"frames of the helper", func(p *fakeServer, c net.Conn) {
		p.acceptLogin(c, true, serveCommand(func(ch ssh.Channel) {
			io.WriteString(ch, "\x1eremshell run cache\n")
			frame := wire.Encode(sampleMessages()["Hello"])
			writeSlowly(ch, string(frame))
		}))
	}, "n1: mpiexec on the host was started, but did not answer within 5 s"},
}

// A host that sends only a byte now and then is given up when the time of its step is over. The message names the
// step.
func TestSlowPeers(t *testing.T) {
	var all sync.WaitGroup // they wait most of the time
	defer all.Wait()
	for _, test := range slowServers {
		for _, args := range []string{"-n 1 -host n1 true", "--doctor n1", "--ps n1", "--status j n1", "--signal USR1 j n1", "--queue n1"} {
			p := newFakeServer(t, test.serve)
			all.Go(func() {
				login := "--connect-timeout 240 "
				if strings.Contains(test.says, "handshake") {
					login = "--connect-timeout 2 "
				}
				printed, code := p.runMpiexec(strings.Fields(login + "--shell-timeout 5 --retries 1 " + args)...)
				if !strings.Contains(printed, test.says) || code != 125 {
					t.Errorf("%s, %s: code %d, %q, want %q", test.name, args, code, printed, test.says)
				}
			})
		}
	}
}
