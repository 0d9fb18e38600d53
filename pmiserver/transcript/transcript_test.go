package transcript

import (
	"strings"
	"testing"
)

// A transcript that cannot be parsed proves nothing, so it is refused.
func TestReadCasesRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"0< cmd=init", `x:1: the line "0< cmd=init" is before the first case`},
		{"case a\n2< cmd=init", "x:2: not a rank"},
		{"case a\n-1< cmd=init", "x:2: not a rank"},
		{"case a\njob size=2 color=red", `x:2: unknown field "color"`},
		{"case a\njob size=two", "x:2: "},
		{"case a\n0< EOF\njob size=2", "x:3: too late"},
		{"case a\n0< KILL(1)", "x:2: unknown word"},
		{"case a\n0> EOF", "x:2: unknown word"},
		{"case a\n0> KILL 9", "x:2: the arguments of this word are not valid"},
		{"case a\n0> KILL(x)", "x:2: "},
		{"case a\n0> DIE now", "x:2: the arguments of this word are not valid"},
		{"case a\n0<cmd=init", "x:2: not a step"},
		{"case a\n0>< cmd=init", "x:2: not a step"},
		{"case a\n0< a\\tb", "x:2: unknown escape"},
		{"case a\n0< a\\xgg", "x:2: "},
		{"case a\nexpect nothing", "x:2: the line describes neither a job nor a step of a test"},
	} {
		_, err := ReadCases("x", strings.NewReader(c.text))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %s", c.text, err, c.want)
		}
	}
}

func TestReadCases(t *testing.T) {
	const text = "# no case\n\ncase 1 a\njob fresh size=3 nodes=aba\n2<< a\\n\\0\\\\\\xff<hex,3>\n1> KILL(9) so be it\n0< EOF\n1> ∅\n"
	cases, err := ReadCases("x", strings.NewReader(text))
	if err != nil || len(cases) != 1 {
		t.Fatal(cases, err)
	}
	c := cases[0]
	if c.Title != "1 a" || !c.Job.Uninitialized || c.Job.Size != 3 || c.Job.Nodes[1] != 1 || len(c.Steps) != 4 {
		t.Fatalf("got %+v", c)
	}
	if s := c.Steps[0]; s.Rank != 2 || !s.FromRank || s.Word != "" || string(s.Bytes) != "a\n\x00\\\xff012" {
		t.Errorf("raw bytes: %+v", s)
	}
	if s := c.Steps[1]; s.FromRank || s.Word != "KILL" || s.Code != 9 || string(s.Bytes) != "so be it" {
		t.Errorf("KILL: %+v", s)
	}
}
