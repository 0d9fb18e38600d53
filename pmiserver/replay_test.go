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

// TestTranscripts replays testdata/pmi: once as written, once with each byte in
// a write of its own, once with all that can be joined in one write.
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

// writeBytewise writes byte by byte; what is long only so far.
func writeBytewise(w io.Writer, b []byte) {
	n := min(len(b), 2000)
	for i := range n {
		w.Write(b[i : i+1])
	}
	w.Write(b[n:])
}

// joined merges what a rank says in several lines without waiting.
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

// replay plays one case. Nothing in it waits for a length of time: synctest
// knows when all goroutines wait for us.
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
				p.silent(t, where)
				p.says(s, write)
				synctest.Wait()
				continue
			}
			if err := p.player(s).told(s); err != nil {
				t.Fatalf("%s: rank %d: %v", where, s.Rank, err)
			}
		}
		p.silent(t, at+": at the end")
	})
}

// init takes all ranks to where most cases begin.
func (p *testJob) init(t *testing.T, two bool) {
	for r, pl := range p.groups[0] {
		says, told := "cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n"
		if two {
			says = "cmd=init pmi_version=2 pmi_subversion=0\n    23cmd=fullinit;pmirank=" + fmt.Sprint(r) + ";"
			told = fmt.Sprintf("cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n   113cmd=fullinit-response;rc=0;"+
				"pmi-version=2;pmi-subversion=0;rank=%d;size=%d;appnum=0;debugged=FALSE;pmiverbose=FALSE;", r, len(p.groups[0]))
		}
		pl.conn.Write([]byte(says))
		synctest.Wait()
		if err := pl.take(told); err != nil {
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

func (p *testJob) says(s transcript.Step, write func(io.Writer, []byte)) {
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

// told compares one line, or one event.
func (pl *testRank) told(s transcript.Step) error {
	switch s.Word {
	case "":
		return pl.take(string(s.Bytes))
	case "∅":
		return pl.nothing()
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

func (pl *testRank) take(want string) error {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if len(pl.got) < len(want) || pl.got[:len(want)] != want {
		return fmt.Errorf("\n got %.1100q %q\nwant %.1100q", pl.got, pl.events, want)
	}
	pl.got = pl.got[len(want):]
	return nil
}

func (pl *testRank) nothing() error {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if pl.got != "" || len(pl.events) > 0 {
		return fmt.Errorf("is told %q %q, and should not be", pl.got, pl.events)
	}
	return nil
}

// silent fails if a rank was told what the case does not list.
func (p *testJob) silent(t *testing.T, where string) {
	t.Helper()
	for g, ranks := range p.groups {
		for r, pl := range ranks {
			if err := pl.nothing(); err != nil {
				t.Fatalf("%s: group %d: rank %d %v", where, g, r, err)
			}
		}
	}
}
