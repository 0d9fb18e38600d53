package launch

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// A step of a Lines test: a piece of a rank, or with flush or end that.
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
		{"a long line goes in pieces", false, []lineStep{{0, strings.Repeat("x", maxHeld), false, false}}, strings.Repeat("x", maxHeld)},
		{"an end without output", true, []lineStep{{0, "", false, true}}, ""},
	}
	for _, test := range tests {
		l := NewLines(nil)
		if test.label {
			l.Label = rankLabel
		}
		var out chunks
		for _, s := range test.steps {
			switch {
			case s.flush:
				l.Flush(&out)
			case s.end:
				l.End(&out, s.rank)
			default:
				l.Add(&out, s.rank, []byte(s.piece))
			}
		}
		if got := string(out.bytes()); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// However the lines of many ranks are cut and mixed, every one arrives whole, with
// its label, and those of one rank in order.
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
		l := NewLines(rankLabel)
		var out chunks
		for busy := ranks; busy > 0; {
			rank := r.IntN(ranks)
			if len(left[rank]) == 0 {
				continue
			}
			n := min(1+r.IntN(40), len(left[rank]))
			l.Add(&out, rank, left[rank][:n])
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
