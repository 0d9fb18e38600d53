//go:build linux

package helper

import (
	"net"
	"strings"
	"testing"

	"remshell/job"
	"remshell/wire"
)

func TestDiagnoseThisMachine(t *testing.T) {
	k := newTestHelper(t)
	k.conn.Send(&wire.Diagnose{Dir: "/", Program: "sh", Path: "/bin", Address: "127.0.0.1"})
	e := receive[*wire.Diagnosed](k).Diagnosis
	if e.Online == 0 || len(e.Limits) != 7 || e.DevShm.Total == 0 || e.Interface != "lo" || e.MTU == 0 || e.ProgramPath != "/bin/sh" || e.PMIOffer != "both (the program is not linked with an MPI library)" ||
		e.Dir.Text != "" || e.Program.Text != "" || e.Clock.IsZero() {
		t.Errorf("exam %+v", e)
	}
	if e.Rules.Forbidden != "" || e.Rules.MaxRanks != -1 || e.Ledger.Path != "/var/tmp" || e.Ledger.Err != "" || e.Account.Text != "" {
		t.Errorf("rules %+v, ledger %+v, account %+v", e.Rules, e.Ledger, e.Account)
	}
	k.conn.Send(&wire.Diagnose{Dir: "/nowhere", Program: "no-such-program"})
	e = receive[*wire.Diagnosed](k).Diagnosis
	if e.Dir.Code != "directory" || e.Dir.Remedy == "" || e.Program.Code != "program" {
		t.Errorf("dir %+v, program %+v", e.Dir, e.Program)
	}
	k.conn.Send(&wire.Bye{})
}

// A probe port accepts a caller that knows the token. It is closed with the session.
func TestProbePort(t *testing.T) {
	k := newTestHelper(t)
	k.conn.Send(&wire.OpenProbePort{Token: "secret"})
	if l := receive[*wire.ProbePortOpened](k); l.Port != 0 || l.Err == "" {
		t.Errorf("without an address: %+v", l)
	}
	k.conn.Send(&wire.OpenProbePort{Address: "127.0.0.1", Token: "secret"})
	port := receive[*wire.ProbePortOpened](k).Port
	at := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}).String()
	k.conn.Send(&wire.ProbePeers{Ports: []wire.ProbePort{
		{Node: "well", Address: at, Token: "secret"},
		{Node: "stranger", Address: at, Token: "guessed"},
		{Node: "nobody", Address: "127.0.0.1:1", Token: "secret"},
	}})
	want := []job.PeerProbe{{Peer: "well"}, {Peer: "stranger", Stage: "small"}, {Peer: "nobody", Stage: "connect", Err: "connection refused"}}
	for i, got := range receive[*wire.PeersProbed](k).Probes {
		if got.Peer != want[i].Peer || got.Stage != want[i].Stage || !strings.HasSuffix(got.Err, want[i].Err) {
			t.Errorf("knock %+v, want %+v", got, want[i])
		}
	}
	idle, err := net.Dial("tcp", at) // a caller that sends nothing does not keep it open
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	k.conn.Send(&wire.Bye{})
	if err := <-k.served; err != nil {
		t.Errorf("session: %v", err)
	}
	if c, err := net.Dial("tcp", at); err == nil {
		c.Close()
		t.Error("the probe port is open after the session")
	}
}
