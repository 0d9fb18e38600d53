package stdio

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
)

// drain calls WriteDue until the sequencer has nothing to write.
func drain(t *testing.T, o *rankSequencer) string {
	t.Helper()
	var all bytes.Buffer
	now := time.Unix(0, 0)
	for {
		var out writeBuffer
		next, err := o.WriteDue(&out, now)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(out.bytes())
		if next.IsZero() || next.After(now) {
			return all.String()
		}
	}
}

func TestOrdered(t *testing.T) {
	o := newRankSequencer(newLineAssembler(rankLabel), []int{0, 1, 2})
	var out writeBuffer
	big := strings.Repeat("x", 1000) + "\n"
	for range 100 {
		o.AddOutput(&out, 2, []byte(big))
	}
	o.RankEnded(&out, 2)
	o.AddOutput(&out, 1, []byte("one\nhalf"))
	if o.spools[2].file == nil || len(o.spools[2].memory) > maxSpoolMemory {
		t.Error("much output is kept in memory")
	}
	o.AddOutput(&out, 0, []byte("zero\n"))
	if got := string(out.bytes()) + drain(t, o); got != "[0] zero\n" {
		t.Errorf("while rank 0 runs: %q", got)
	}
	o.RankEnded(&out, 0)
	if got := drain(t, o); got != "[1] one\n" {
		t.Errorf("while rank 1 runs: %q", got)
	}
	o.RankEnded(&out, 1)
	if got, want := drain(t, o), "[1] half\n"+strings.Repeat("[2] "+big, 100); got != want {
		t.Errorf("at the end %d bytes, want %d", len(got), len(want))
	}
	out = writeBuffer{}
	o.AddOutput(&out, 1, []byte("late\n"))
	if got := string(out.bytes()); got != "[1] late\n" {
		t.Errorf("a late word of a leftover child: %q", got)
	}
}

// A rank without output and end does not hold back the others at the end.
func TestSequencerEnd(t *testing.T) {
	o := newRankSequencer(newLineAssembler(nil), []int{0, 1})
	var out writeBuffer
	o.AddOutput(&out, 1, []byte("one"))
	o.EndAll()
	got := drain(t, o)
	o.FlushAll(&out)
	if got += string(out.bytes()); got != "one" {
		t.Errorf("got %q", got)
	}
}

func TestOrderedTellsThatItCannotKeep(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()+"/gone")
	o := newRankSequencer(newLineAssembler(nil), []int{0, 1})
	var out writeBuffer
	o.AddOutput(&out, 1, make([]byte, maxSpoolMemory+1))
	if _, err := o.WriteDue(&out, time.Now()); !os.IsNotExist(err) && (err == nil || !strings.Contains(err.Error(), "rank 1")) {
		t.Errorf("error %v", err)
	}
}
