package pmiserver_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"remshell/pmiserver"
	"remshell/pmiserver/transcript"
)

// TestTranscripts replays testdata/pmi three times: as written, with each byte in a write of its own,
// and with as many lines as possible in one write.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("../testdata/pmi/*.pmi")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		cases, err := transcript.ReadCases(filepath.Base(name), f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			at := fmt.Sprintf("%s:%d", filepath.Base(name), c.Line)
			t.Run(at+"/whole", func(t *testing.T) { replay(t, c, at, writeWhole) })
			t.Run(at+"/bytes", func(t *testing.T) { replay(t, c, at, writeBytewise) })
			merged := c
			merged.Steps = joined(c.Steps)
			t.Run(at+"/joined", func(t *testing.T) { replay(t, merged, at, writeWhole) })
		}
	}
}

func writeWhole(w io.Writer, b []byte) { w.Write(b) }

// writeBytewise writes byte by byte; it does so only for the start of long messages.
func writeBytewise(w io.Writer, b []byte) {
	n := min(len(b), 2000)
	for i := range n {
		w.Write(b[i : i+1])
	}
	w.Write(b[n:])
}

// joined merges the lines that a rank sends without waiting.
func joined(steps []transcript.Step) []transcript.Step {
	var out []transcript.Step
	for _, s := range steps {
		if n := len(out); n > 0 && s.FromRank && out[n-1].FromRank && s.Word == "" && out[n-1].Word == "" && s.Rank == out[n-1].Rank {
			out[n-1].Bytes = slices.Concat(out[n-1].Bytes, s.Bytes)
			continue
		}
		out = append(out, s)
	}
	return out
}

// replay replays one case. It never waits for a fixed time: synctest reports when all goroutines wait.
func replay(t *testing.T, c transcript.Case, at string, write func(io.Writer, []byte)) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestJob(c.Job)
		defer p.end(t, at)
		synctest.Wait()
		if !c.Job.Uninitialized {
			p.init(t, c.Job.PMI2)
		}
		for _, s := range c.Steps {
			where := fmt.Sprintf("%s: line %d", at, s.Line)
			if s.FromRank {
				p.checkSilent(t, where)
				p.send(s, write)
				synctest.Wait()
				continue
			}
			if err := p.player(s).checkStep(s); err != nil {
				t.Fatalf("%s: rank %d: %v", where, s.Rank, err)
			}
		}
		p.checkSilent(t, at+": at the end")
	})
}

// init sends the init of all ranks, with which most cases begin.
func (p *testJob) init(t *testing.T, two bool) {
	for r, pl := range p.groups[0] {
		request, reply := "cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n"
		if two {
			request = "cmd=init pmi_version=2 pmi_subversion=0\n    23cmd=fullinit;pmirank=" + fmt.Sprint(r) + ";"
			reply = fmt.Sprintf("cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n   113cmd=fullinit-response;rc=0;"+
				"pmi-version=2;pmi-subversion=0;rank=%d;size=%d;appnum=0;debugged=FALSE;pmiverbose=FALSE;", r, len(p.groups[0]))
		}
		pl.conn.Write([]byte(request))
		synctest.Wait()
		if err := pl.expect(reply); err != nil {
			t.Fatal(err)
		}
	}
}

func ending(err error) string {
	var junk *pmiserver.ProtocolError
	switch {
	case err == nil:
		return "CLOSED"
	case errors.Is(err, pmiserver.ErrUnfinalized):
		return "LOST"
	case errors.As(err, &junk):
		return "DIE"
	case errors.Is(err, pmiserver.ErrNoRank):
		return "REFUSED"
	}
	return err.Error()
}

func (p *testJob) send(s transcript.Step, write func(io.Writer, []byte)) {
	pl := p.player(s)
	switch s.Word {
	case "EOF":
		pl.conn.Close()
	case "EXIT":
		pl.server.Exited(s.Rank)
	case "STARTED":
		p.started(string(s.Bytes))
	case "FAILED":
		p.failed(string(s.Bytes))
	default:
		write(pl.conn, s.Bytes)
	}
}

// checkStep compares one line, or one event.
func (pl *testRank) checkStep(s transcript.Step) error {
	switch s.Word {
	case "":
		return pl.expect(string(s.Bytes))
	case "∅":
		return pl.expectNothing()
	}
	want := s.Word
	switch want {
	case "KILL":
		want = strings.TrimSpace(fmt.Sprintf("KILL(%d) %s", s.Code, s.Bytes))
	case "SPAWN":
		want += " " + string(s.Bytes)
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if len(pl.events) == 0 || pl.events[0] != want {
		return fmt.Errorf("got %q, want %s", pl.events, want)
	}
	pl.events = pl.events[1:]
	return nil
}

func (pl *testRank) expect(want string) error {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if len(pl.got) < len(want) || pl.got[:len(want)] != want {
		return fmt.Errorf("\n got %.1100q %q\nwant %.1100q", pl.got, pl.events, want)
	}
	pl.got = pl.got[len(want):]
	return nil
}

func (pl *testRank) expectNothing() error {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if pl.got != "" || len(pl.events) > 0 {
		return fmt.Errorf("received %q %q, and should not be", pl.got, pl.events)
	}
	return nil
}

// checkSilent fails if a rank received a line that the case does not list.
func (p *testJob) checkSilent(t *testing.T, where string) {
	t.Helper()
	for g, ranks := range p.groups {
		for r, pl := range ranks {
			if err := pl.expectNothing(); err != nil {
				t.Fatalf("%s: group %d: rank %d %v", where, g, r, err)
			}
		}
	}
}
