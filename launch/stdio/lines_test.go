package stdio

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// A lineStep is a step of a test: a piece of a rank's output, or a flush or the rank's end.
type lineStep struct {
	rank       int
	piece      string
	flush, end bool
}

// rankLabel is the label of -l.
func rankLabel(rank int) []byte { return fmt.Appendf(nil, "[%d] ", rank) }

func TestLines(t *testing.T) {
	tests := []struct {
		name  string
		label bool
		steps []lineStep
		want  string
	}{
		{"plain", false, []lineStep{{0, "a\nb\n", false, false}}, "a\nb\n"},
		{"labels", true, []lineStep{{3, "a\nb\n", false, false}}, "[3] a\n[3] b\n"},
		{"a line in pieces is not torn", true, []lineStep{{0, "he", false, false}, {1, "x\n", false, false}, {0, "llo\n", false, false}},
			"[1] x\n[0] hello\n"},
		{"a prompt shows", true, []lineStep{{0, "name? ", false, false}, {0, "", true, false}, {0, "bob\n", false, false}}, "[0] name? bob\n"},
		{"a prompt of one, a line of another", true, []lineStep{{0, "name? ", false, false}, {0, "", true, false}, {1, "x\n", false, false}, {0, "bob\n", false, false}},
			"[0] name? \n[1] x\n[0] bob\n"},
		{"last line without newline, plain", false, []lineStep{{0, "end", false, false}, {0, "", false, true}}, "end"},
		{"last line without newline, labels", true, []lineStep{{0, "end", false, false}, {0, "", false, true}, {1, "x\n", false, false}}, "[0] end\n[1] x\n"},
		{"empty lines have labels", true, []lineStep{{0, "\n\n", false, false}}, "[0] \n[0] \n"},
		{"binary passes", false, []lineStep{{0, "\x00\xff\n\x80", false, false}, {0, "", false, true}}, "\x00\xff\n\x80"},
		{"a long line goes in pieces", false, []lineStep{{0, strings.Repeat("x", maxUnfinished), false, false}}, strings.Repeat("x", maxUnfinished)},
		{"an end without output", true, []lineStep{{0, "", false, true}}, ""},
	}
	for _, test := range tests {
		l := newLineAssembler(nil)
		if test.label {
			l.Label = rankLabel
		}
		var out writeBuffer
		for _, s := range test.steps {
			switch {
			case s.flush:
				l.FlushAll(&out)
			case s.end:
				l.RankEnded(&out, s.rank)
			default:
				l.AddOutput(&out, s.rank, []byte(s.piece))
			}
		}
		if got := string(out.bytes()); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// However output of many ranks is split and mixed, each line arrives whole with its label, and
// lines of one rank stay in order.
func TestLinesAreNeverTorn(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		const ranks = 5
		var left [ranks][]byte
		for rank := range ranks {
			for line := range 20 {
				left[rank] = fmt.Appendf(left[rank], "%d:%d:%s\n", rank, line, strings.Repeat("y", r.IntN(30)))
			}
		}
		l := newLineAssembler(rankLabel)
		var out writeBuffer
		for busy := ranks; busy > 0; {
			rank := r.IntN(ranks)
			if len(left[rank]) == 0 {
				continue
			}
			n := min(1+r.IntN(40), len(left[rank]))
			l.AddOutput(&out, rank, left[rank][:n])
			if left[rank] = left[rank][n:]; len(left[rank]) == 0 {
				busy--
			}
		}
		var next [ranks]int
		for line := range bytes.Lines(out.bytes()) {
			var label, rank, number int
			var rest string
			if _, err := fmt.Sscanf(string(line), "[%d] %d:%d:%s\n", &label, &rank, &number, &rest); err != nil && !bytes.HasSuffix(line, []byte(":\n")) {
				t.Fatalf("torn line %q: %v", line, err)
			}
			if label != rank || number != next[rank] {
				t.Fatalf("line %q: label %d, want line %d", line, label, next[rank])
			}
			next[rank]++
		}
	}
}

// IO-8: an unfinished line appears after a delay, and only if no other rank wrote meanwhile.
func TestPromptsShow(t *testing.T) {
	l := newLineAssembler(nil)
	now := time.Unix(0, 0)
	tick := func(after time.Duration) (text string, wants bool) {
		now = now.Add(after)
		var out writeBuffer
		next, err := l.WriteDue(&out, now)
		if err != nil {
			t.Fatal(err)
		}
		return string(out.bytes()), !next.IsZero()
	}
	var out writeBuffer
	l.AddOutput(&out, 3, []byte("name? "))
	for _, step := range []struct {
		after time.Duration
		say   string // by rank 4
		want  string
		wants bool
	}{
		{0, "", "", true},
		{unfinishedDelay - 1, "", "", true},
		{0, "a line\n", "", true}, // another rank writes: the delay starts again
		{unfinishedDelay - 1, "", "", true},
		{1, "", "name? ", false},
	} {
		if step.say != "" {
			l.AddOutput(&out, 4, []byte(step.say))
		}
		if text, wants := tick(step.after); text != step.want || wants != step.wants {
			t.Errorf("after %v and %q: %q, %v", step.after, step.say, text, wants)
		}
	}
	l.AddOutput(&out, 3, []byte("half"))
	l.AddOutput(&out, 4, []byte("half"))
	tick(0)
	if text, wants := tick(time.Hour); text != "" || wants {
		t.Errorf("of two unfinished lines %q is shown", text)
	}
	l = newLineAssembler(nil)
	l.Raw = true
	out = writeBuffer{}
	if l.AddOutput(&out, 3, []byte("now")); string(out.bytes()) != "now" {
		t.Error("--unbuffered waits")
	}
}
