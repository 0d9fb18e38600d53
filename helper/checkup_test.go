//go:build linux

package helper

import (
	"net"
	"strings"
	"testing"

	"remshell/job"
	"remshell/wire"
)

func TestExamOfThisMachine(t *testing.T) {
	k := newTalk(t)
	k.conn.Send(&wire.Examine{Dir: "/", Program: "sh", Path: "/bin", Address: "127.0.0.1"})
	e := hear[*wire.Examined](k).Exam
	if e.Online == 0 || len(e.Limits) != 7 || e.Shared.Total == 0 || e.Interface != "lo" || e.MTU == 0 || e.Found != "/bin/sh" || e.Offer != "both (linked with no MPI)" ||
		e.Dir.Text != "" || e.Program.Text != "" || e.Clock.IsZero() {
		t.Errorf("exam %+v", e)
	}
	if e.Rules.Barred != "" || e.Rules.Most != -1 || e.Ledger.Path != "/var/tmp" || e.Ledger.Err != "" || e.Account.Text != "" {
		t.Errorf("rules %+v, ledger %+v, account %+v", e.Rules, e.Ledger, e.Account)
	}
	k.conn.Send(&wire.Examine{Dir: "/nowhere", Program: "no-such-program"})
	e = hear[*wire.Examined](k).Exam
	if e.Dir.Code != "directory" || e.Dir.Remedy == "" || e.Program.Code != "program" {
		t.Errorf("dir %+v, program %+v", e.Dir, e.Program)
	}
	k.conn.Send(&wire.Bye{})
}

// A probe port lets in who knows the token, and is closed with the session.
func TestProbePort(t *testing.T) {
	k := newTalk(t)
	k.conn.Send(&wire.Listen{Token: "secret"})
	if l := hear[*wire.Listening](k); l.Port != 0 || l.Err == "" {
		t.Errorf("without an address: %+v", l)
	}
	k.conn.Send(&wire.Listen{Address: "127.0.0.1", Token: "secret"})
	port := hear[*wire.Listening](k).Port
	at := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}).String()
	k.conn.Send(&wire.ProbePeers{Ports: []wire.ProbePort{
		{Node: "well", Address: at, Token: "secret"},
		{Node: "stranger", Address: at, Token: "guessed"},
		{Node: "nobody", Address: "127.0.0.1:1", Token: "secret"},
	}})
	want := []job.PeerProbe{{At: "well"}, {At: "stranger", Stage: "small"}, {At: "nobody", Stage: "connect", Err: "connection refused"}}
	for i, got := range hear[*wire.PeersProbed](k).Probes {
		if got.At != want[i].At || got.Stage != want[i].Stage || !strings.HasSuffix(got.Err, want[i].Err) {
			t.Errorf("knock %+v, want %+v", got, want[i])
		}
	}
	idle, err := net.Dial("tcp", at) // a caller that says nothing does not keep it open
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	k.conn.Send(&wire.Bye{})
	if err := <-k.over; err != nil {
		t.Errorf("session: %v", err)
	}
	if c, err := net.Dial("tcp", at); err == nil {
		c.Close()
		t.Error("the probe port is open after the session")
	}
}
